//! What messages say about pieces and trees, drawn for the tests beside prost.

use super::*;

pub(super) fn route() -> impl Strategy<Value = elastic::Route> {
    (long(), long(), long(), number()).prop_map(|(from, to, term, owner)| elastic::Route {
        from,
        to,
        term,
        owner,
    })
}

/// What a request or an answer says of a part; each of the two has some of these fields.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PbPart {
    #[prost(uint32, tag = "1")]
    slice: u32,
    #[prost(uint64, tag = "2")]
    from: u64,
    #[prost(uint64, tag = "3")]
    to: u64,
    #[prost(uint64, tag = "4")]
    term: u64,
    #[prost(uint64, tag = "5")]
    epoch: u64,
    #[prost(bool, tag = "6")]
    again: bool,
    #[prost(message, repeated, tag = "7")]
    routes: Vec<elastic::Route>,
    #[prost(uint32, tag = "8")]
    after: u32,
    #[prost(uint64, tag = "9")]
    life: u64,
    #[prost(bool, tag = "10")]
    init: bool,
    #[prost(bool, tag = "11")]
    ahead: bool,
    #[prost(message, optional, boxed, tag = "12")]
    ticket: Option<Box<trees::Ticket>>,
    #[prost(uint64, tag = "13")]
    overlay: u64,
    #[prost(bool, tag = "14")]
    asks: bool,
    #[prost(message, repeated, tag = "15")]
    tickets: Vec<trees::PartTicket>,
}

impl PbPart {
    pub(super) fn of(meta: &Meta) -> Option<Self> {
        let asked = meta.ask().cloned().map(|ask| {
            let elastic::PartAsk { slice, from, to, term, epoch, after, .. } = ask;
            let elastic::PartAsk { life, init, ahead, ticket, overlay, asks, .. } = ask;
            let part = Self { slice, from, to, term, epoch, after, life, init, ..Self::default() };
            Self { ahead, ticket, overlay, asks, ..part }
        });
        asked.or_else(|| {
            let elastic::PartReply { slice, from, to, term, epoch, again, .. } = *meta.reply()?;
            let elastic::PartReply { routes, life, ticket, overlay, tickets, .. } =
                meta.reply()?.clone();
            let part = Self { slice, from, to, term, epoch, again, routes, ..Self::default() };
            Some(Self { life, ticket, overlay, tickets, ..part })
        })
    }

    pub(super) fn ask(self) -> elastic::PartAsk {
        let Self { slice, from, to, term, epoch, after, life, init, .. } = self;
        let Self { ahead, ticket, overlay, asks, .. } = self;
        let part = elastic::PartAsk { slice, from, to, term, epoch, after, ..Default::default() };
        elastic::PartAsk { life, init, ahead, ticket, overlay, asks, ..part }
    }

    pub(super) fn reply(self) -> elastic::PartReply {
        let Self { slice, from, to, term, epoch, again, routes, .. } = self;
        let Self { life, ticket, overlay, tickets, .. } = self;
        let part = elastic::PartReply { slice, from, to, term, epoch, again, ..Default::default() };
        elastic::PartReply { routes, life, ticket, overlay, tickets, ..part }
    }
}

pub(super) fn part() -> impl Strategy<Value = PbPart> {
    use proptest::collection::vec;
    (any::<u32>(), long(), long(), long(), long(), any::<bool>(), vec(route(), 0..4)).prop_map(
        |(slice, from, to, term, epoch, again, routes)| PbPart {
            tickets: routes.iter().map(part_ticket).collect(),
            slice,
            from,
            to,
            term,
            epoch,
            again,
            routes,
            after: slice ^ 1,
            life: from,
            init: again,
            ahead: !again,
            ticket: again.then(|| Box::new(ticket(term))),
            overlay: epoch,
            asks: again,
        },
    )
}

fn part_ticket(route: &elastic::Route) -> trees::PartTicket {
    let ticket = (route.owner > 0).then(|| ticket(route.term));
    trees::PartTicket { from: route.from, to: route.to, ticket }
}

fn ticket(round: u64) -> trees::Ticket {
    trees::Ticket { overlay: round / 2, tree: 3, round }
}

pub(super) fn hop() -> impl Strategy<Value = trees::Hop> {
    use proptest::collection::vec;
    let name = (number(), number(), long(), number(), any::<bool>());
    let name = name.prop_map(|(worker, customer, life, timestamp, wants)| trees::PushName {
        worker,
        customer,
        life,
        timestamp,
        after: timestamp as u32,
        slice: customer as u32,
        wants,
    });
    (0..5_i32, long(), long(), vec(name, 0..4)).prop_map(|(kind, round, key, names)| trees::Hop {
        kind,
        ticket: ticket(round),
        names,
        key,
    })
}

pub(super) fn overlay(number: u64) -> trees::Overlay {
    let nodes = vec![trees::TreeNode { node: 9, up: 8, down: 11 }];
    let trees = vec![trees::TreeTable { root: 8, nodes, weight: 3 }];
    trees::Overlay { number, floor: number / 2, trees }
}

pub(super) fn exchange(number: u64) -> exchange::ExchangeSpec {
    let outer = exchange::OuterRule { momentum: number as u32, nesterov: true, rate: 7 };
    exchange::ExchangeSpec {
        mode: exchange::ExchangeMode::Diloco as i32,
        steps: 20,
        keep: number.is_multiple_of(2),
        sections: 8,
        window: number as u32 ^ 3,
        outer,
        every: number,
        scale: true,
        waits: number.is_multiple_of(3),
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PbSetting {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

impl PbSetting {
    pub(super) fn of(setting: &Setting) -> Self {
        Self { name: Some(setting.name.clone()), value: Some(setting.value.clone()) }
    }

    pub(super) fn read(self) -> Setting {
        Setting { name: self.name.unwrap_or_default(), value: self.value.unwrap_or_default() }
    }
}

pub(super) fn setting() -> impl Strategy<Value = PbSetting> {
    let text = || proptest::option::of("[A-Za-z_=0-9]{0,20}");
    (text(), text()).prop_map(|(name, value)| PbSetting { name, value })
}
