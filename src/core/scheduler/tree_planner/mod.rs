//! Trees of a job: which are given out (`planner`, `planted`), of which network (`sites`,
//! `site_links`, `work_clock`), worked out elsewhere (`job`), when others are better (`link_news`,
//! `under_way`, `past`), and as people see them (`shown`). How trees are drawn through a network is
//! in `placement::graph`.

mod job;
mod link_news;
mod past;
mod planner;
mod planted;
mod shown;
mod site_links;
mod sites;
mod under_way;
mod work_clock;

pub use job::{TreeAnswer, TreeJob};
pub(super) use planner::{Planned, TreePlanner};
