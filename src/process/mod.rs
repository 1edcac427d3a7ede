//! stub
pub const SUPERVISOR_ARGUMENT: &str = "__run";
pub fn supervise(_: impl Iterator<Item = std::ffi::OsString>) -> i32 {
    1
}
#[derive(Debug, Clone)]
pub struct Supervisor;
impl Supervisor {
    pub fn own() -> std::io::Result<Self> {
        Ok(Self)
    }
}
