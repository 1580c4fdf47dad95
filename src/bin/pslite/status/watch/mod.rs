//! `pslite status --watch`: the state of a job, again and again. On a terminal it is a screen that
//! is drawn anew; elsewhere, also where no key can be typed, the plain table (or the JSON) is
//! printed each time.
//!
//! `asking` asks the scheduler on a thread, `view` is what is known (pure; time is an argument),
//! `draw` puts it on a screen of any size, `keys` says what a key does. Only this file touches the
//! terminal.

mod asking;
mod blocks;
mod draw;
mod keys;
mod view;

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use pslite::node::Operator;
use pslite::observe::awake;
use ratatui::crossterm::event;

use self::asking::StatusAsker;
use self::view::JobView;
use super::table::table;
use crate::print::{print, say};

/// For how long keys are waited for before the screen is drawn anew: ages of a second are seen.
const REDRAW: Duration = Duration::from_millis(250);
/// A scheduler that has answered once, and then does not for so long, is taken as ended where
/// nobody can press a key.
const GONE_AFTER: Duration = Duration::from_secs(10);
/// The shortest and the longest time between two questions, in seconds.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// Reads how often to ask.
pub(super) fn interval(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| INTERVALS.contains(number));
    number.ok_or_else(|| "it is a number of seconds from 0.1 to 3600".to_owned())
}

/// Shows the job until the user leaves, or, where there is no terminal, until it is over.
///
/// # Errors
/// The scheduler does not answer the first time, or the terminal cannot be used.
pub(super) fn run(operator: Operator, seconds: f64, json: bool) -> Result<ExitCode> {
    let every = Duration::from_secs_f64(seconds);
    let is_seen = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if json || !is_seen {
        return print_again(&operator, every, json);
    }
    on_terminal(operator, every)
}

/// For pipes and files: the whole, each time.
fn print_again(operator: &Operator, every: Duration, json: bool) -> Result<ExitCode> {
    let place = format!("{}:{}", operator.host, operator.port);
    let mut last_answer = None;
    loop {
        let asked = awake::now();
        match operator.status() {
            Ok(status) => {
                last_answer = Some(awake::now());
                if json {
                    say!("{}", status.json());
                } else {
                    print(format_args!("{}\n", table(&status)));
                }
            }
            Err(error) => {
                let Some(last) = last_answer else {
                    return Err(error).with_context(|| format!("no status of {place}"));
                };
                if awake::since(last) >= GONE_AFTER {
                    eprintln!("pslite: the scheduler at {place} answers no more: {error}");
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
        while awake::since(asked) < every {
            thread::sleep(awake::left(asked + every));
        }
    }
}

/// Draws until the user leaves. The terminal is given back as it was whatever happens: at an error,
/// at a panic (ratatui's hook) and at a signal that ends the program.
fn on_terminal(operator: Operator, every: Duration) -> Result<ExitCode> {
    // Before the thread that asks is there: it inherits the mask.
    end_at_signals()?;
    let mut view = JobView::new(format!("{}:{}", operator.host, operator.port), colours());
    let asking = StatusAsker::start(operator, every).context("cannot start a thread")?;
    let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
    let began = Instant::now();
    let outcome = (|| -> Result<ExitCode> {
        loop {
            let now = began.elapsed();
            while let Some(answer) = asking.answer() {
                view.take(now, answer);
            }
            terminal.draw(|frame| draw::screen(frame, &view, now)).context("cannot draw")?;
            if !is_typed()? || !event::poll(Duration::ZERO).context("cannot read keys")? {
                continue;
            }
            let event = event::read().context("cannot read keys")?;
            match keys::meaning(&event).map(|key| view.press(key)) {
                Some(view::Pressed::Leave) => return Ok(ExitCode::SUCCESS),
                Some(view::Pressed::Drain(server)) => asking.drain(server),
                Some(view::Pressed::Nothing) | None => {}
            }
        }
    })();
    ratatui::restore();
    outcome
}

/// Waits for a key, until it is time to draw anew. It looks at the terminal before crossterm does,
/// which would read the end of a terminal that is gone for ever.
///
/// # Errors
/// The terminal is gone.
fn is_typed() -> Result<bool> {
    let keys = std::io::stdin();
    let mut polled = [PollFd::new(keys.as_fd(), PollFlags::POLLIN)];
    let limit = PollTimeout::try_from(REDRAW).unwrap_or(PollTimeout::ZERO);
    match poll(&mut polled, limit) {
        Ok(_) => {}
        // The size has changed.
        Err(Errno::EINTR) => return Ok(true),
        Err(error) => return Err(error).context("cannot read keys"),
    }
    let seen = polled[0].revents().unwrap_or(PollFlags::empty());
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    ensure!(!seen.intersects(gone), "the terminal is gone");
    Ok(seen.contains(PollFlags::POLLIN))
}

/// Has a thread wait for the signals that end the program. It gives the terminal back and ends the
/// program, whatever the others are doing.
fn end_at_signals() -> Result<()> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        set.add(signal);
    }
    set.thread_block().context("cannot block signals")?;
    let wait = move || {
        if let Ok(signal) = set.wait() {
            ratatui::restore();
            std::process::exit(128 + signal as i32);
        }
    };
    let thread = thread::Builder::new().name("pslite-signals".to_owned());
    thread.spawn(wait).context("cannot start a thread")?;
    Ok(())
}

/// As <https://no-color.org> says.
fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
