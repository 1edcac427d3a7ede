//! The loop in memory: order, bounds, interruptions, children, and what the model sees of them.

mod bounds;
mod calls;
mod cancel;
mod child;
mod replies;
