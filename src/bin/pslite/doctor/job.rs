//! What the environment says of the job, as text: the checks want to see nonsense too.

/// The variables of a job; an empty value counts as not set.
#[derive(Clone, Debug, Default)]
pub(super) struct JobVariables {
    pub(super) role: Option<String>,
    pub(super) num_worker: Option<String>,
    pub(super) num_server: Option<String>,
    pub(super) root_host: Option<String>,
    pub(super) root_port: Option<String>,
    pub(super) node_host: Option<String>,
    pub(super) interface: Option<String>,
    pub(super) port: Option<String>,
    pub(super) port_range: Option<String>,
    pub(super) transport: Option<String>,
    pub(super) topology: Option<String>,
    pub(super) links: Option<String>,
    pub(super) tunnels: Option<String>,
    /// The setting, if there is one, for which data take the stock wire.
    pub(super) about_stock_wire: Option<String>,
    pub(super) local: bool,
    pub(super) kubernetes: bool,
    pub(super) preload: Option<String>,
    pub(super) python: Option<String>,
}

impl JobVariables {
    /// Reads the variables; `role` goes before DMLC_ROLE.
    pub(super) fn read(role: Option<&str>, lookup: &dyn Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| {
            lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let number =
            |name: &str| text(name).and_then(|value| value.parse::<i32>().ok()).unwrap_or(0);
        Self {
            role: role.map(str::to_owned).or_else(|| text("DMLC_ROLE")),
            num_worker: text("DMLC_NUM_WORKER"),
            num_server: text("DMLC_NUM_SERVER"),
            root_host: text("DMLC_PS_ROOT_URI"),
            root_port: text("DMLC_PS_ROOT_PORT"),
            node_host: text("DMLC_NODE_HOST"),
            interface: text("DMLC_INTERFACE"),
            port: text("PORT"),
            port_range: text("PSLITE_PORT_RANGE"),
            transport: text("PSLITE_TRANSPORT"),
            topology: text("PSLITE_TOPOLOGY"),
            links: text("PSLITE_LINKS"),
            tunnels: text("PSLITE_TUNNELS"),
            about_stock_wire: about_stock_wire(&text),
            local: number("DMLC_LOCAL") != 0,
            kubernetes: number("DMLC_USE_KUBERNETES") > 0,
            preload: text("LD_PRELOAD"),
            python: text("PYTHON"),
        }
    }

    /// Nothing of a job is set: as in a shell from which `pslite run` is about to be called.
    pub(super) fn is_absent(&self) -> bool {
        let settings =
            [&self.role, &self.num_worker, &self.num_server, &self.root_host, &self.root_port];
        settings.iter().all(|setting| setting.is_none())
    }

    pub(super) fn is_scheduler(&self) -> bool {
        self.role.as_deref() == Some("scheduler")
    }

    /// The scheduler's port, if it is one.
    pub(super) fn root_port_number(&self) -> Option<u16> {
        self.root_port.as_deref()?.parse().ok().filter(|port| *port > 0)
    }
}

/// The settings that are about the stock wire: with one of them, data take it.
fn about_stock_wire(text: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let is_on = |name: &&str| text(name).is_some_and(|value| value.parse() != Ok(0));
    let number = ["PS_RESEND", "PS_DROP_MSG", "DMLC_LOCAL"].into_iter().find(is_on);
    let level = text("PSLITE_LEVEL").filter(|value| value == "stock").map(|_| "PSLITE_LEVEL");
    let name = number.or(level)?;
    Some(format!("{name}={}", text(name)?))
}

/// A job for the tests of the checks.
#[cfg(test)]
pub(super) fn of(variables: &[(&str, &str)]) -> JobVariables {
    JobVariables::read(None, &|name| {
        variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
    })
}
