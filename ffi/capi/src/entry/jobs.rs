//! Schedulers and servers without an application, and questions to the scheduler of a job.

use super::*;
use pslite_core::wire::chronicle::ChronicleQuestion;

entry! {
    fn pslite_serve_scheduler(node: *mut CNode) {
        live(node, "the node")?.postoffice.serve_scheduler()
    }
    fn pslite_serve_server(node: *mut CNode) {
        live(node, "the node")?.postoffice.serve_server()
    }
    fn pslite_job_status(
        job: *const CJob, text: *mut c_char, capacity: usize, size: *mut usize,
    ) {
        let status = operator_of(job)?.status()?;
        put_all(status.json().as_bytes(), text.cast::<u8>(), capacity, size);
        Ok(())
    }
    fn pslite_job_events(
        job: *const CJob,
        after_event: u64,
        after_point: u64,
        text: *mut c_char,
        capacity: usize,
        size: *mut usize,
    ) {
        let asked = ChronicleQuestion { after_event, after_point };
        let status = operator_of(job)?.chronicle(asked)?;
        put_all(status.json().as_bytes(), text.cast::<u8>(), capacity, size);
        Ok(())
    }
    fn pslite_job_drain(
        job: *const CJob, server: i32, text: *mut c_char, capacity: usize, size: *mut usize,
    ) {
        let answer = operator_of(job)?.drain(server)?;
        put_all(answer.as_bytes(), text.cast::<u8>(), capacity, size);
        Ok(())
    }
}

/// Who asks the scheduler of that job.
fn operator_of(job: *const CJob) -> Result<Operator, NodeError> {
    let job = get(job, "the job")?;
    let host = text_of(job.host);
    let port = u16::try_from(job.port).ok().filter(|port| *port > 0);
    let (Some(port), false) = (port, host.is_empty()) else {
        return Err(invalid("the job needs its scheduler's host and port"));
    };
    let own = text_of(job.own_host);
    let own_host = Some(own).filter(|own| !own.is_empty());
    let timeout = Duration::from_millis(u64::try_from(job.timeout_ms).unwrap_or(0));
    Ok(Operator { host, port, own_host, timeout })
}
