//! The planner in a running job: what nodes measure and report (`gauge`, `measuring`), and what the
//! scheduler makes of it (`desk`, `plans`, `probes`). Of trees: `planting`, `planted`, `former`,
//! `looks`, `drafts`, `sites`, `site_links`, `work_clock`, `under_way`, `shown`. Rules of placement
//! are in `placement`; this module decides only who says what when.

mod desk;
mod drafts;
mod former;
mod gauge;
mod looks;
mod measuring;
mod plans;
mod planted;
mod planting;
mod probes;
mod shown;
mod site_links;
mod sites;
mod under_way;
mod work_clock;

pub(super) use desk::Desk;
pub(super) use gauge::Gauge;
use measuring::Measuring;
use plans::{Planning, Steps};
use planting::Planting;
