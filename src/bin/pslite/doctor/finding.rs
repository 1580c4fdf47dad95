//! What a check answers with: how bad it is, what was found, and what to do.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Ok,
    Warning,
    Fail,
}

/// The answer of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Severity,
    pub(super) topic: &'static str,
    pub(super) text: String,
    /// What to do.
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self { level: Severity::Ok, topic, text: text.into(), advice: None }
    }

    pub(super) fn warning(
        topic: &'static str,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { level: Severity::Warning, topic, text: text.into(), advice: Some(advice.into()) }
    }

    pub(super) fn fail(
        topic: &'static str,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { level: Severity::Fail, topic, text: text.into(), advice: Some(advice.into()) }
    }

    pub(super) fn line(&self) -> String {
        let level = match self.level {
            Severity::Ok => "ok",
            Severity::Warning => "warning",
            Severity::Fail => "FAIL",
        };
        let advice = self.advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
        format!("{level:<8} {:<9} {}{advice}", self.topic, self.text)
    }
}
