//! reagent: a coding agent for the terminal.
