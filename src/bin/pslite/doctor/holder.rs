//! Who listens on a port: the kernel's socket table, then the open files of the processes we may
//! look at.

use std::fs;
use std::net::Ipv4Addr;

/// The state of a listening socket in /proc/net/tcp.
const LISTEN: &str = "0A";

/// The process that listens on the port at this address or at all addresses, as `name (process N)`.
pub(super) fn port_holder(address: Ipv4Addr, port: u16) -> Option<String> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .find_map(|table| listening_inode(&fs::read_to_string(table).ok()?, address, port))?;
    let socket = format!("socket:[{inode}]");
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(files) = fs::read_dir(entry.path().join("fd")) else { continue };
        let holds = files.flatten().any(|file| {
            fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == socket.as_str())
        });
        if holds {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            return Some(format!("{} (process {pid})", name.trim()));
        }
    }
    None
}

/// Lines look like `0: 0100007F:2383 00000000:0000 0A ... inode`, the address in host byte order.
fn listening_inode(table: &str, address: Ipv4Addr, port: u16) -> Option<u64> {
    let wanted = format!("{:08X}", u32::from_ne_bytes(address.octets()));
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (host, found) = fields.get(1)?.split_once(':')?;
        let ours = u16::from_str_radix(found, 16).ok()? == port
            && *fields.get(3)? == LISTEN
            && (host == wanted || host.bytes().all(|byte| byte == b'0'));
        if ours { fields.get(9)?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn we_find_ourselves() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let holder = port_holder(Ipv4Addr::LOCALHOST, port).unwrap();
        assert!(holder.ends_with(&format!("(process {})", std::process::id())), "{holder}");
    }

    #[test]
    fn nonsense_in_the_table_is_no_holder() {
        assert_eq!(
            listening_inode("head\n0: x\n1: 0100007F:zz 0 0A\n\n", Ipv4Addr::LOCALHOST, 1),
            None
        );
    }
}
