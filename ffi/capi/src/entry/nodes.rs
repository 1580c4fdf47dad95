//! Nodes: beginning, end, and what they know; and which one is the process's.

use pslite_node::settings::names;

use super::*;
use crate::exit;

/// The node of this process, or null. Whoever made it says so, and frees it.
static PROCESS: AtomicPtr<CNode> = AtomicPtr::new(std::ptr::null_mut());

const NO_NODE: &str = "this process has no node of its own: none was made by MXNet under the \
                       preload library (mx.kv.create(\"dist_sync\")), by ps::Start in C++, or \
                       named by pslite_set_process_node";

plain! {
    fn pslite_node_free(node: *mut CNode) -> (), else (), {
        if !node.is_null() && !is_forked() {
            let nobody = std::ptr::null_mut();
            // It fails if another one is the process's: then there is nothing to forget.
            let _ = PROCESS.compare_exchange(node, nobody, Ordering::AcqRel, Ordering::Relaxed);
            // SAFETY: made by pslite_node_new and not freed yet (top of entry.rs).
            drop(unsafe { Box::from_raw(node) });
        }
    }
    fn pslite_node_stop(node: *mut CNode) -> (), else (), {
        if let Ok(node) = get(node, "the node") {
            node.postoffice.stop();
        }
    }
    fn pslite_log(level: c_int, text: *const c_char) -> (), else (), {
        if !text.is_null() {
            let level = match level { 0 => Level::Error, 1 => Level::Warning, _ => Level::Info };
            // SAFETY: a C string (top of entry.rs).
            log::write(level, &unsafe { CStr::from_ptr(text) }.to_string_lossy());
        }
    }
}

entry! {
    fn pslite_setting_check(name: *const c_char) {
        names::check(&text_of(name)).map_err(NodeError::Invalid)
    }
    fn pslite_exit_with(code: c_int) {
        if !(1..=255).contains(&code) {
            return Err(invalid(&format!("{code} is no exit code from 1 to 255")));
        }
        exit::with(code).map_err(|()| invalid("no function can be registered with atexit"))
    }
    fn pslite_node_new(lookup: LookupFn, lookup_arg: *mut c_void, out: *mut *mut CNode) {
        if out.is_null() {
            return Err(invalid("out is NULL"));
        }
        refuse_forked()?;
        let postoffice = Postoffice::new(lookup_of(lookup, Argument(lookup_arg)));
        let hostname = Mutex::new(CString::default());
        put(out, Box::into_raw(Box::new(CNode { postoffice, hostname })));
        Ok(())
    }
    fn pslite_process_node(node: *mut *mut CNode) {
        if node.is_null() {
            return Err(invalid("node is NULL"));
        }
        refuse_forked()?;
        let found = PROCESS.load(Ordering::Acquire);
        if found.is_null() {
            return Err(NodeError::NotStarted(NO_NODE.to_owned()));
        }
        put(node, found);
        Ok(())
    }
    fn pslite_set_process_node(node: *mut CNode) {
        refuse_forked()?;
        PROCESS.store(node, Ordering::Release);
        Ok(())
    }
    fn pslite_node_set_wire(node: *mut CNode, wire: i32) {
        let dialect = match wire {
            0 => None,
            1 => Some(Dialect::Mxnet),
            2 => Some(Dialect::Byteps025),
            3 => Some(Dialect::Byteps),
            other => return Err(invalid(&format!("{other} is no wire"))),
        };
        live(node, "the node")?.postoffice.ask(|asked| asked.dialect = dialect);
        Ok(())
    }
    fn pslite_node_set_role(node: *mut CNode, role: i32) {
        let role = match role {
            -1 => None,
            number => Some(
                Role::from_wire(number).ok_or_else(|| invalid(&format!("{number} is no role")))?,
            ),
        };
        live(node, "the node")?.postoffice.ask(|asked| asked.role = role);
        Ok(())
    }
    fn pslite_node_set_rank(node: *mut CNode, rank: i32) {
        if rank < -1 {
            return Err(invalid(&format!("{rank} is no rank")));
        }
        let rank = u32::try_from(rank).ok();
        live(node, "the node")?.postoffice.ask(|asked| asked.wished_rank = rank);
        Ok(())
    }
    fn pslite_node_set_group_size(node: *mut CNode, size: i32) {
        let size = u16::try_from(size).ok().filter(|size| (1..=GROUP_SIZE_MAX).contains(size));
        let size = size.ok_or_else(|| invalid("the size of a group is from 1 to 1024"))?;
        live(node, "the node")?.postoffice.ask(|asked| asked.group_size = Some(size));
        Ok(())
    }
    fn pslite_node_set_hold_pushes(node: *mut CNode, holds: i32) {
        let holds = match holds {
            -1 => None,
            0 => Some(false),
            1 => Some(true),
            other => return Err(invalid(&format!("{other} is none of -1, 0, 1"))),
        };
        live(node, "the node")?.postoffice.ask(|asked| asked.holds_pushes = holds);
        Ok(())
    }
    fn pslite_node_group_size(node: *mut CNode, size: *mut i32) {
        put(size, live(node, "the node")?.postoffice.describe()?.group_size as i32);
        Ok(())
    }
    fn pslite_start(node: *mut CNode, customer_id: i32, do_barrier: c_int) {
        live(node, "the node")?.postoffice.start(customer_id, do_barrier != 0)
    }
    fn pslite_finalize(node: *mut CNode, customer_id: i32, do_barrier: c_int) {
        live(node, "the node")?.postoffice.finalize(customer_id, do_barrier != 0)
    }
    fn pslite_barrier(node: *mut CNode, customer_id: i32, group: i32, flags: u32) {
        live(node, "the node")?.postoffice.barrier(customer_id, group, flags & 1 != 0)
    }
    fn pslite_exchange_finish(node: *mut CNode, exchanges: *mut i32) {
        let answer = live(node, "the node")?.postoffice.align()?;
        put(exchanges, i32::from(answer));
        Ok(())
    }
    fn pslite_node_describe(node: *mut CNode, out: *mut CNodeInfo) {
        let node = live(node, "the node")?;
        let info = node.postoffice.describe()?;
        let mut hostname = node.hostname.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if hostname.as_bytes() != info.hostname.as_bytes() {
            *hostname = c_text(&info.hostname);
        }
        put(out, CNodeInfo {
            role: info.role as i32,
            id: info.id,
            rank: info.rank,
            num_workers: info.num_workers as i32,
            num_servers: info.num_servers as i32,
            port: info.port,
            verbose: info.verbose,
            is_recovery: u8::from(info.is_recovery),
            is_ready: u8::from(info.is_ready),
            hostname: hostname.as_ptr(),
        });
        Ok(())
    }
    fn pslite_node_ids(
        node: *mut CNode, group: i32, ids: *mut i32, capacity: usize, count: *mut usize,
    ) {
        put_all(&live(node, "the node")?.postoffice.node_ids(group)?, ids, capacity, count);
        Ok(())
    }
    fn pslite_dead_nodes(
        node: *mut CNode, timeout_s: i32, ids: *mut i32, capacity: usize, count: *mut usize,
    ) {
        let timeout = Duration::from_secs(u64::try_from(timeout_s).unwrap_or(0));
        put_all(&live(node, "the node")?.postoffice.dead_nodes(timeout)?, ids, capacity, count);
        Ok(())
    }
    fn pslite_metrics(
        node: *mut CNode, text: *mut c_char, capacity: usize, size: *mut usize,
    ) {
        let metrics = live(node, "the node")?.postoffice.metrics()?;
        put_all(metrics.as_bytes(), text.cast::<u8>(), capacity, size);
        Ok(())
    }
    fn pslite_server_key_ranges(
        node: *mut CNode, ranges: *mut CRange, capacity: usize, count: *mut usize,
    ) {
        let all: Vec<CRange> = live(node, "the node")?
            .postoffice
            .server_key_ranges()?
            .iter()
            .map(|range| CRange { begin: range.begin, end: range.end })
            .collect();
        put_all(&all, ranges, capacity, count);
        Ok(())
    }
    fn pslite_next_values(data_type: i32, devices: *const CDevices) {
        // SAFETY: null or valid (top of entry.rs).
        set_next(data_type, unsafe { devices.as_ref() })
    }
    fn pslite_send(
        node: *mut CNode, meta: *const CMeta, frames: *const CFrame, count: usize,
    ) {
        // The frames are taken over first, so that they are released also if the call fails.
        let (data, data_type) = frames_of(frames, count);
        let devices = take_next().devices;
        let mut message = message_of(get(meta, "the metadata")?, data, data_type);
        message.meta.devices = devices;
        live(node, "the node")?.postoffice.send(message)
    }
    fn pslite_on_failure(node: *mut CNode, failed: FailedFn, arg: *mut c_void) {
        let failed = failed.ok_or_else(|| invalid("failed is NULL"))?;
        let arg = Argument(arg);
        live(node, "the node")?.postoffice.set_on_failure(Box::new(move |reason| {
            let reason = c_text(reason);
            // SAFETY: the header's contract of pslite_failed_fn.
            unsafe { failed(arg.get(), reason.as_ptr()) };
        }));
        Ok(())
    }
}
