//! Stand-in until the compression is merged.
use super::Buffer;
use super::error::StoreError;
/// x
#[derive(Clone, Debug, Default)]
pub struct Compression {
    _x: u8,
}
impl Compression {
    /// x
    pub fn read(_: &[u8]) -> Result<Self, StoreError> {
        Ok(Self::default())
    }
    /// x
    pub fn decode(&self, _: &[u8], _: usize) -> Result<Buffer, StoreError> {
        Err(StoreError::Malformed("no compression was set"))
    }
}
