//! What nodes of a job say to Prometheus: a scheduler that shows what all nodes have counted is
//! told it, any other one is not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/ports.rs"]
mod ports;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pslite::node::{Customer, Lookup, Postoffice};

const LIMIT: Duration = Duration::from_secs(60);

/// A scheduler, a server and a worker.
struct Job {
    scheduler: Arc<Postoffice>,
    others: [(Arc<Postoffice>, Customer); 2],
}

impl Job {
    fn start(shows: bool) -> Self {
        let port = ports::free_port();
        let office = |role: &'static str| {
            let lookup: Lookup = Arc::new(move |name| {
                let text = match name {
                    "DMLC_ROLE" => role.to_owned(),
                    "DMLC_NUM_WORKER" | "DMLC_NUM_SERVER" => "1".to_owned(),
                    "DMLC_PS_ROOT_URI" | "DMLC_NODE_HOST" => "127.0.0.1".to_owned(),
                    "DMLC_PS_ROOT_PORT" => port.to_string(),
                    "PSLITE_HTTP" if shows && role == "scheduler" => "0".to_owned(),
                    "PSLITE_PEER_TIMEOUT" => "1".to_owned(),
                    _ => return None,
                };
                Some(text)
            });
            Arc::new(Postoffice::new(lookup))
        };
        let [server, worker] = ["server", "worker"].map(office);
        let scheduler = office("scheduler");
        let serving = server.customer(0, 0, Box::new(|_| {})).unwrap();
        serving.handle().attach_server();
        serving.handle().attach_store();
        let asking = worker.customer(0, 0, Box::new(|_| {})).unwrap();
        asking.handle().attach_worker(1);
        thread::scope(|scope| {
            for office in [&scheduler, &server, &worker] {
                scope.spawn(|| office.start(0, true).unwrap());
            }
        });
        Self { scheduler, others: [(server, serving), (worker, asking)] }
    }

    /// The lines of the scheduler's text about messages that a node has sent in all.
    fn told(&self, node: &str) -> Vec<String> {
        let start = format!("pslite_messages_total{{node=\"{node}\",direction=\"sent\"}} ");
        let text = self.scheduler.openmetrics().unwrap();
        text.lines().filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
    }

    fn stop(self) {
        for (office, _) in &self.others {
            office.stop();
        }
        self.scheduler.stop();
    }
}

#[test]
fn a_scheduler_that_shows_what_nodes_count_is_told_it_again_and_again() {
    let (shows, hides) = (Job::start(true), Job::start(false));
    let until = Instant::now() + LIMIT;
    for node in ["server0", "worker0"] {
        // Each sends signs of life, so the number grows.
        let mut seen: Vec<String> = Vec::new();
        while seen.len() < 2 {
            assert!(Instant::now() < until, "{node} told {seen:?}");
            thread::sleep(Duration::from_millis(100));
            let told = shows.told(node);
            assert!(told.len() <= 1, "{told:?}");
            for number in told {
                if !seen.contains(&number) {
                    seen.push(number);
                }
            }
        }
        // As long as the other job runs, too.
        assert!(hides.told(node).is_empty());
    }
    for job in [&shows, &hides] {
        let text = job.scheduler.openmetrics().unwrap();
        for line in [
            "pslite_job_phase{phase=\"running\"} 1",
            "pslite_nodes{role=\"worker\",state=\"live\"} 1",
            "pslite_oldest_wait_seconds{for=\"worker0\"} 0.0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
        assert!(text.contains("pslite_heard_seconds_ago{node=\"server0\"} "), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
        let (worker, _) = &job.others[1];
        let own = worker.openmetrics().unwrap();
        assert!(own.contains("{node=\"worker0\",peer=\"scheduler\",direction=\"sent\""), "{own}");
        assert!(!own.contains("pslite_job_phase"), "it is no scheduler: {own}");
    }
    shows.stop();
    hides.stop();
}
