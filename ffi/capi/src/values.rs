//! What the calling thread has said of the values that it sends next (`pslite_next_values`).

use std::cell::Cell;

use pslite_core::wire::{DataType, Device, Devices};
use pslite_node::{NodeError, Values};

use crate::types::CDevices;

thread_local! {
    static NEXT: Cell<Option<Values>> = const { Cell::new(None) };
}

/// Remembers it for the next call that sends values.
pub(crate) fn set_next(data_type: i32, devices: Option<&CDevices>) -> Result<(), NodeError> {
    if !(0..=DataType::Other as i32).contains(&data_type) {
        return Err(NodeError::Invalid(format!("{data_type} is no data type")));
    }
    let devices = devices.and_then(|devices| devices.as_wire().if_told());
    NEXT.set(Some(Values { data_type, devices }));
    Ok(())
}

/// What was said last, if anything: it counts once.
pub(crate) fn take_next() -> Values {
    NEXT.take().unwrap_or_default()
}

/// Kinds of devices that the header names; others count as unknown.
const KINDS: std::ops::RangeInclusive<i32> = 0..=2;

impl CDevices {
    /// As applications may see it, whatever a peer sent.
    pub(crate) fn from_wire(devices: Devices) -> Self {
        let kind = |device: Device| if KINDS.contains(&device.kind) { device.kind } else { 0 };
        Self {
            src_type: kind(devices.source),
            src_id: devices.source.id,
            dst_type: kind(devices.target),
            dst_id: devices.target.id,
        }
    }

    const fn as_wire(&self) -> Devices {
        Devices {
            source: Device { kind: self.src_type, id: self.src_id },
            target: Device { kind: self.dst_type, id: self.dst_id },
        }
    }
}
