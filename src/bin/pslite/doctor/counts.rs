//! Role and counts: every node needs all five variables, and equal counts everywhere. A wrong count
//! is the most frequent reason for a start that hangs without a word.

use super::Finding;
use super::job::JobVariables;

const TOPIC: &str = "counts";

pub(super) fn check(job: &JobVariables) -> Vec<Finding> {
    if job.is_absent() {
        return vec![Finding::warning(
            TOPIC,
            "the environment names no job (no DMLC_ROLE, DMLC_NUM_WORKER, ...)",
            "fine before `pslite run`, which sets it; by hand, set it and ask again",
        )];
    }
    let mut findings = vec![role(job)];
    findings.push(count("DMLC_NUM_WORKER", job.num_worker.as_deref(), "workers"));
    findings.push(count("DMLC_NUM_SERVER", job.num_server.as_deref(), "servers"));
    findings
}

fn role(job: &JobVariables) -> Finding {
    match job.role.as_deref() {
        Some(role @ ("worker" | "server" | "scheduler")) => {
            Finding::ok(TOPIC, format!("this is a {role}"))
        }
        Some(other) => Finding::fail(
            TOPIC,
            format!("DMLC_ROLE={other} is none of worker, server, scheduler"),
            "stock would take it for a server; correct it",
        ),
        None => {
            Finding::fail(TOPIC, "DMLC_ROLE is not set", "set it to worker, server or scheduler")
        }
    }
}

fn count(name: &str, value: Option<&str>, what: &str) -> Finding {
    let Some(value) = value else {
        return Finding::fail(
            TOPIC,
            format!("{name} is not set"),
            format!("set it to the number of {what} of the whole job, the same on every node"),
        );
    };
    match value.parse::<i32>() {
        Ok(count) if count > 0 => {
            Finding::ok(TOPIC, format!("{name}: {count} (must be so on every node)"))
        }
        _ => Finding::fail(
            TOPIC,
            format!("{name}={value} is not a whole number above 0"),
            "stock would take it for 0 or worse; correct it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::job::of;
    use super::*;

    const GOOD: [(&str, &str); 3] =
        [("DMLC_ROLE", "worker"), ("DMLC_NUM_WORKER", "2"), ("DMLC_NUM_SERVER", "1")];

    fn levels(variables: &[(&str, &str)]) -> Vec<Severity> {
        check(&of(variables)).iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn a_complete_job_passes() {
        assert_eq!(levels(&GOOD), [Severity::Ok; 3]);
    }

    #[test]
    fn each_mistake_is_found() {
        for (index, value) in [(0, "wroker"), (1, "0"), (1, "two"), (2, "-1"), (0, ""), (2, "")] {
            let mut variables = GOOD;
            variables[index].1 = value;
            let found = levels(&variables);
            assert_eq!(found[index], Severity::Fail, "{:?}", variables[index]);
            assert_eq!(found.iter().filter(|level| **level == Severity::Fail).count(), 1);
        }
    }

    #[test]
    fn no_job_is_no_failure() {
        assert_eq!(levels(&[]), [Severity::Warning]);
    }
}
