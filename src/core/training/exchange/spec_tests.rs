//! What a job may be asked for, and what is said where it may not.

use super::spec::{check, parse};
use crate::wire::exchange::{ExchangeMode, ExchangeSpec, OuterRule};

fn spec(text: &str) -> ExchangeSpec {
    parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn refused(text: &str) -> String {
    parse(text).expect_err(text)
}

#[test]
fn each_mode_is_the_machine_with_its_parameters() {
    let nbsync = spec("nbsync");
    let outer = OuterRule { momentum: 500_000, nesterov: true, rate: 1_000_000 };
    assert_eq!(
        nbsync,
        ExchangeSpec {
            mode: ExchangeMode::Nbsync as i32,
            steps: 1,
            keep: true,
            sections: 8,
            window: 0,
            outer,
            every: 0,
            scale: true,
            waits: false,
        }
    );
    let published = spec("nbsync:published");
    assert_eq!((published.sections, published.window, published.keep), (1, 1, false));
    assert_eq!((published.outer.momentum, published.outer.rate), (0, 1_000_000));
    let diloco = spec("diloco:steps=20");
    assert_eq!((diloco.steps, diloco.waits, diloco.window), (20, true, 1));
    assert_eq!((diloco.outer.momentum, diloco.outer.rate), (900_000, 700_000));
    let fedavg = spec("fedavg:steps=5,every=100");
    assert_eq!((fedavg.steps, fedavg.every, fedavg.outer.momentum), (5, 100, 0));
    assert_eq!(spec("esync").steps, 1);
}

#[test]
fn options_change_the_mode_they_follow() {
    let text =
        "nbsync:sections=4,window=3,momentum=0.25,nesterov=0,rate=0.7,every=9,steps=2,scale=0";
    let all = spec(text);
    assert_eq!((all.sections, all.window, all.every, all.steps, all.scale), (4, 3, 9, 2, false));
    let outer = OuterRule { momentum: 250_000, nesterov: false, rate: 700_000 };
    assert_eq!(all.outer, outer);
    let corrected = spec(" nbsync : published , keep=1 ");
    assert_eq!((corrected.keep, corrected.sections, corrected.window), (true, 1, 1));
    assert_eq!(spec("nbsync:sections=1").window, 1);
}

#[test]
fn what_is_refused_says_what_is_allowed() {
    for (text, says) in [
        ("bsp", "nbsync, nbsync:published, fedavg:steps=N"),
        ("", "no way to exchange"),
        ("fedavg", "fedavg:steps=20"),
        ("diloco:every=7", "diloco:steps=20"),
        ("fedavg:steps=5,momentum=0.5", "it has steps= (a number of steps from 1 to 1000000)"),
        ("fedavg:steps=5,sections=2", "has no option \"sections=2\""),
        ("diloco:steps=5,keep=1", "has no option \"keep=1\""),
        ("diloco:published", "has no option \"published\""),
        ("nbsync:fast", "has no option \"fast\""),
        ("nbsync:sections=0", "sections is a number from 1 to 256"),
        ("nbsync:sections=257", "sections is a number from 1 to 256"),
        ("nbsync:sections", "sections is a number from 1 to 256"),
        ("nbsync:sections=2,window=3", "than there are sections"),
        ("nbsync:sections=2,sections=3", "said twice"),
        ("nbsync:keep=0", "keep=0 is for one section"),
        ("nbsync:published,window=2", "than there are sections"),
        ("nbsync:momentum=1", "momentum is a number from 0 to below 1"),
        ("nbsync:momentum=-0.1", "momentum is a number"),
        ("nbsync:momentum=NaN", "momentum is a number"),
        ("nbsync:momentum=0.1234567", "at most six decimal places"),
        ("nbsync:momentum=0,nesterov=1", "momentum is 0"),
        ("nbsync:rate=0", "rate is a number above 0"),
        ("nbsync:rate=11", "up to 10"),
        ("nbsync:every=0", "at least 1"),
        ("nbsync:steps=1000001", "from 1 to 1000000"),
        ("nbsync:scale=yes", "scale is 0 or 1"),
    ] {
        let why = refused(text);
        assert!(why.contains(says), "{text}: {why}");
    }
}

#[test]
fn a_spec_of_a_later_version_is_not_followed_in_part() {
    let good = spec("nbsync");
    assert_eq!(check(&good), Ok(()));
    for bad in [
        ExchangeSpec { mode: 0, ..good },
        ExchangeSpec { mode: 9, ..good },
        ExchangeSpec { steps: 0, ..good },
        ExchangeSpec { sections: 0, ..good },
        ExchangeSpec { window: 9, ..good },
        ExchangeSpec { keep: false, ..good },
        ExchangeSpec { waits: true, ..good },
        ExchangeSpec { sections: 1, ..good },
        ExchangeSpec { outer: OuterRule { momentum: 1_000_000, ..good.outer }, ..good },
        ExchangeSpec { outer: OuterRule { rate: 0, ..good.outer }, ..good },
        ExchangeSpec { every: u64::MAX, ..good },
        ExchangeSpec::default(),
    ] {
        assert!(check(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn people_read_what_it_does() {
    for (text, said) in [
        ("nbsync", "nbsync, 8 sections, nesterov 0.5 x 1"),
        ("nbsync:published", "nbsync, 1 section, nothing kept at a swap"),
        ("diloco:steps=20", "diloco, 20 steps, nesterov 0.9 x 0.7"),
        ("fedavg:steps=1,rate=0.5", "fedavg, 1 step, rate 0.5"),
        (
            "esync:every=5,scale=0",
            "esync, 1 step, aligned every 5 iterations, gradients not scaled",
        ),
        ("nbsync:nesterov=0", "nbsync, 8 sections, momentum 0.5 x 1"),
    ] {
        assert_eq!(spec(text).describe(), said);
    }
}
