//! What a job is asked for, as text, and what a policy says of it. Every mode is the one machine
//! with other parameters. A setting that would have no effect in a mode is refused.

use crate::wire::exchange::{ExchangeMode, ExchangeSpec, MILLION, OuterRule};

/// Steps of a stretch.
const STEPS_MAX: u32 = 1_000_000;
/// Sections.
pub const SECTIONS_MAX: u32 = 256;
/// Iterations between two alignments.
const EVERY_MAX: u64 = 1 << 40;
/// The outer rate, in millionths.
const RATE_MAX: u32 = 10 * MILLION;

/// What can be asked for, for people.
const FORMS: &str = "nbsync, nbsync:published, fedavg:steps=N or diloco:steps=N, each with options \
     after a colon and commas between them, such as nbsync:sections=4,momentum=0";

/// An option, and what it takes.
struct Choice {
    name: &'static str,
    takes: &'static str,
    set: fn(&mut ExchangeSpec, &str) -> Option<()>,
    /// The modes that have it.
    has: fn(ExchangeMode) -> bool,
}

const fn any(_: ExchangeMode) -> bool {
    true
}

const fn overlaps(mode: ExchangeMode) -> bool {
    matches!(mode, ExchangeMode::Nbsync)
}

const fn has_outer(mode: ExchangeMode) -> bool {
    !matches!(mode, ExchangeMode::Fedavg)
}

const CHOICES: [Choice; 9] = [
    Choice {
        name: "steps",
        takes: "a number of steps from 1 to 1000000",
        set: |spec, text| number(text, 1, u64::from(STEPS_MAX)).map(|n| spec.steps = n as u32),
        has: any,
    },
    Choice {
        name: "sections",
        takes: "a number from 1 to 256",
        set: |spec, text| number(text, 1, SECTIONS_MAX.into()).map(|n| spec.sections = n as u32),
        has: overlaps,
    },
    Choice {
        name: "window",
        takes: "a number of rounds from 1 to the number of sections",
        set: |spec, text| number(text, 1, SECTIONS_MAX.into()).map(|n| spec.window = n as u32),
        has: overlaps,
    },
    Choice {
        name: "keep",
        takes: "0 or 1",
        set: |spec, text| truth(text).map(|keep| spec.keep = keep),
        has: overlaps,
    },
    Choice {
        name: "momentum",
        takes: "a number from 0 to below 1, with at most six decimal places",
        set: |spec, text| millionths(text, 0, MILLION - 1).map(|m| spec.outer.momentum = m),
        has: has_outer,
    },
    Choice {
        name: "nesterov",
        takes: "0 or 1",
        set: |spec, text| truth(text).map(|nesterov| spec.outer.nesterov = nesterov),
        has: has_outer,
    },
    Choice {
        name: "rate",
        takes: "a number above 0 up to 10, with at most six decimal places",
        set: |spec, text| millionths(text, 1, RATE_MAX).map(|rate| spec.outer.rate = rate),
        has: any,
    },
    Choice {
        name: "every",
        takes: "a number of iterations, at least 1",
        set: |spec, text| number(text, 1, EVERY_MAX).map(|every| spec.every = every),
        has: any,
    },
    Choice {
        name: "scale",
        takes: "0 or 1",
        set: |spec, text| truth(text).map(|scale| spec.scale = scale),
        has: any,
    },
];

/// What a text asks for: `nbsync`, `nbsync:published`, `diloco:steps=20,every=500` and so on.
///
/// # Errors
/// It asks for nothing that there is; the text says what is allowed.
pub fn parse(text: &str) -> Result<ExchangeSpec, String> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let (name, mut options) = (name.trim(), split(options));
    let mode = mode(name).ok_or_else(|| format!("{name:?} is no way to exchange; {FORMS}"))?;
    let published = options.first() == Some(&"published") && mode == ExchangeMode::Nbsync;
    if published {
        options.remove(0);
    }
    let mut spec = preset(mode, published);
    let mut set = Vec::new();
    for option in options {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let (key, value) = (key.trim(), value.trim());
        let choice = choice(mode, key).ok_or_else(|| unknown(name, mode, option))?;
        if set.contains(&key) {
            return Err(format!("{key} is said twice"));
        }
        (choice.set)(&mut spec, value)
            .ok_or_else(|| format!("{key}={value}: {key} is {}", choice.takes))?;
        set.push(key);
    }
    let of_k_steps = matches!(mode, ExchangeMode::Fedavg | ExchangeMode::Diloco);
    if of_k_steps && !set.contains(&"steps") {
        return Err(format!("{name} needs the steps between two exchanges: {name}:steps=20"));
    }
    if set.contains(&"nesterov") && spec.outer.momentum == 0 {
        return Err("nesterov says which momentum is meant, and momentum is 0".to_owned());
    }
    if spec.sections == 1 && !set.contains(&"window") {
        spec.window = 1;
    }
    check(&spec)?;
    Ok(spec)
}

/// A spec that a policy says: this version must know all that it means.
///
/// # Errors
/// It does not, or the fields do not go together; the text says which.
pub fn check(spec: &ExchangeSpec) -> Result<(), String> {
    let require = |holds: bool, text: &str| if holds { Ok(()) } else { Err(text.to_owned()) };
    let known = ExchangeMode::try_from(spec.mode).is_ok_and(|mode| mode != ExchangeMode::Unknown);
    require(known, "the way to exchange is of a later version")?;
    let ExchangeSpec { steps, sections, window, outer, keep, waits, every, .. } = *spec;
    require((1..=STEPS_MAX).contains(&steps), "a stretch has 1 to 1000000 steps")?;
    require((1..=SECTIONS_MAX).contains(&sections), "there are 1 to 256 sections")?;
    require(window <= sections, "window: no more rounds can be in flight than there are sections")?;
    require(window == 1 || sections > 1, "window: one section is in flight once")?;
    require(outer.momentum < MILLION, "momentum is below 1")?;
    require((1..=RATE_MAX).contains(&outer.rate), "rate is above 0, and at most 10")?;
    require(every <= EVERY_MAX, "every: more iterations than any job has")?;
    let one = sections == 1;
    require(
        keep || one,
        "keep=0 is for one section: with several, nothing would be left of a step",
    )?;
    require(!waits || one && !keep, "who waits has one section, and nothing to keep")
}

fn mode(name: &str) -> Option<ExchangeMode> {
    Some(match name {
        "nbsync" => ExchangeMode::Nbsync,
        "fedavg" => ExchangeMode::Fedavg,
        "diloco" => ExchangeMode::Diloco,
        "esync" => ExchangeMode::Esync,
        _ => return None,
    })
}

/// A mode before its options.
fn preset(mode: ExchangeMode, published: bool) -> ExchangeSpec {
    let (momentum, rate) = match mode {
        ExchangeMode::Nbsync if !published => (500_000, MILLION),
        // The paper's (arXiv 2311.08105, section 3.1).
        ExchangeMode::Diloco => (900_000, 700_000),
        _ => (0, MILLION),
    };
    let default = mode == ExchangeMode::Nbsync && !published;
    ExchangeSpec {
        mode: mode as i32,
        steps: 1,
        keep: default,
        sections: if default { 8 } else { 1 },
        window: u32::from(!default),
        outer: OuterRule { momentum, nesterov: true, rate },
        every: 0,
        scale: true,
        waits: mode != ExchangeMode::Nbsync,
    }
}

fn choice(mode: ExchangeMode, name: &str) -> Option<&'static Choice> {
    CHOICES.iter().find(|choice| choice.name == name && (choice.has)(mode))
}

fn unknown(name: &str, mode: ExchangeMode, option: &str) -> String {
    let all = CHOICES.iter().filter(|choice| (choice.has)(mode));
    let all: Vec<String> =
        all.map(|choice| format!("{}= ({})", choice.name, choice.takes)).collect();
    format!("{name} has no option {option:?}; it has {}", all.join(", "))
}

fn split(options: &str) -> Vec<&str> {
    options.split(',').map(str::trim).filter(|option| !option.is_empty()).collect()
}

fn number(text: &str, least: u64, most: u64) -> Option<u64> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn millionths(text: &str, least: u32, most: u32) -> Option<u32> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1e3).contains(number))?;
    let all = (number * f64::from(MILLION)).round();
    let exact = (all / f64::from(MILLION) - number).abs() < 1e-9;
    let all = all as u32;
    (exact && (least..=most).contains(&all)).then_some(all)
}
