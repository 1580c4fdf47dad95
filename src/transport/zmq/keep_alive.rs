//! How the system finds out that a peer's host is gone, or the way to it.

use std::io;

use crate::sys::Socket;
use crate::sys::fork::KEEP_ALIVE_S;

/// Lets the kernel find out within 10 s that a peer's machine is gone, when nothing is under way.
pub(super) fn keep_alive(socket: &mut Socket) -> io::Result<()> {
    socket.set_int(zmq_sys::ZMQ_TCP_KEEPALIVE, 1)?;
    socket.set_int(zmq_sys::ZMQ_TCP_KEEPALIVE_IDLE, KEEP_ALIVE_S.0.into())?;
    socket.set_int(zmq_sys::ZMQ_TCP_KEEPALIVE_INTVL, KEEP_ALIVE_S.1.into())?;
    socket.set_int(zmq_sys::ZMQ_TCP_KEEPALIVE_CNT, KEEP_ALIVE_S.2.into())
}
