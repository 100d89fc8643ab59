//! The monotonic clock, read from the processor's counter where the kernel does so too.
//!
//! `CLOCK_MONOTONIC` by `clock_gettime` takes some 20 ns, and the counter a third of that. A line through the last two
//! readings of both (an *anchor* each) gives the time; it holds for as long as the two were apart, a second at most, and
//! then whoever asks next takes another reading. So no thread is needed, and a change of the clock's rate (NTP) is followed
//! within a second. Lines meet where they change, so time does not go backwards; who asks at that very moment in another
//! thread gets the kernel's time, which may be earlier by the error.
//!
//! The error is that of a reading, [`MAX_GAP`] / 2 each, at both ends of the line: 1.5 µs at most, and what the kernel
//! changes the clock's rate by within a second (usually below 1 µs). Usual readings take 50 ns.

mod ticks;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// A reading of both takes at most this long, in nanoseconds; otherwise the thread was interrupted in it.
const MAX_GAP: u64 = 1_000;
const ATTEMPTS: u32 = 4;
/// How long a first line is observed, and how long the longest line holds, in nanoseconds.
const SHORTEST: u64 = 5_000_000;
const LONGEST: u64 = 1_000_000_000;
/// The part of its length that a line may be wrong by; more is a clock that was stopped, such as that of a machine that
/// slept.
const MAX_ERROR: u64 = 512;
/// The bits behind the point of a rate.
const FRACTION: u32 = 32;

/// Nanoseconds since the machine started: `CLOCK_MONOTONIC`, which other tracers use too.
#[inline]
pub(crate) fn now() -> u64 {
    match LINE.read() {
        Some((line, ticks)) if ticks.wrapping_sub(line.ticks) <= line.holds => line.at(ticks),
        _ => slowly(),
    }
}

/// Reads the counter from now on, if the kernel trusts it.
pub(crate) fn start() {
    if ticks::are_trusted() {
        IS_TRUSTED.store(true, Ordering::Relaxed);
        slowly();
    }
}

static IS_TRUSTED: AtomicBool = AtomicBool::new(false);
static LINE: Published = Published::new();

/// The time as the kernel gives it.
fn kernel() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the answer has room. The call reads shared memory and makes no system call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.cast_unsigned())
}

#[cold]
fn slowly() -> u64 {
    if IS_TRUSTED.load(Ordering::Relaxed)
        && let Some(anchor) = Anchor::read()
        && let Some(time) = LINE.extend(anchor)
    {
        return time;
    }
    kernel()
}

/// What both showed at one moment.
#[derive(Clone, Copy)]
struct Anchor {
    ticks: u64,
    time: u64,
}

impl Anchor {
    /// `None` if the thread is interrupted again and again.
    fn read() -> Option<Anchor> {
        let mut before = kernel();
        for _ in 0..ATTEMPTS {
            let ticks = ticks::now();
            let after = kernel();
            if after.saturating_sub(before) <= MAX_GAP {
                return Some(Anchor { ticks, time: before.midpoint(after) });
            }
            before = after;
        }
        None
    }
}

/// Gives the time for the counter's values from `ticks` on, as many as it holds for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Line {
    ticks: u64,
    time: u64,
    /// Nanoseconds for a tick, with [`FRACTION`] bits behind the point.
    rate: u64,
    holds: u64,
    /// The anchor at its begin.
    anchor_time: u64,
}

impl Line {
    #[inline]
    fn at(&self, ticks: u64) -> u64 {
        let elapsed = u128::from(ticks.wrapping_sub(self.ticks)) * u128::from(self.rate);
        self.time.wrapping_add((elapsed >> FRACTION) as u64)
    }

    /// The line from this anchor on; `None` if it is too early to tell the rate.
    fn next(&self, anchor: Anchor) -> Option<Line> {
        let first = Line { ticks: anchor.ticks, time: anchor.time, rate: 0, holds: 0, anchor_time: anchor.time };
        let ticks = anchor.ticks.wrapping_sub(self.ticks);
        let elapsed = anchor.time.saturating_sub(self.anchor_time);
        let is_first = self.ticks == 0 && self.anchor_time == 0;
        if !is_first && elapsed < SHORTEST {
            return None;
        }
        // The counter was set back, or the clock was: all begins again.
        let steady = u64::try_from((u128::from(elapsed) << FRACTION) / u128::from(ticks.max(1))).unwrap_or(0);
        let is_other = self.rate != 0 && steady.abs_diff(self.rate) > self.rate / (MAX_ERROR / 4);
        if is_first || is_other || steady == 0 || ticks > u64::MAX / 2 {
            return Some(first);
        }
        // What this line gave last, which the next one must not be before.
        let given = if self.rate == 0 { 0 } else { self.at(anchor.ticks.min(self.ticks.wrapping_add(self.holds))) };
        let early = given.saturating_sub(anchor.time);
        let length = elapsed.min(LONGEST);
        if early > length / MAX_ERROR {
            return Some(first);
        }
        // A line that begins early is flatter, and ends where the clock is expected to be.
        let rate = u128::from(steady) * u128::from(length.saturating_sub(early)) / u128::from(length);
        let holds = (u128::from(length) << FRACTION) / u128::from(steady);
        Some(Line {
            ticks: anchor.ticks,
            time: anchor.time + early,
            rate: u64::try_from(rate).ok()?,
            holds: u64::try_from(holds).ok()?,
            anchor_time: anchor.time,
        })
    }
}

/// A line that threads read while another replaces it. Nobody waits: who finds it half replaced asks the kernel.
struct Published {
    /// Odd while it is replaced. A child of a fork that came in between finds it odd for ever, and asks the kernel.
    version: AtomicU64,
    fields: [AtomicU64; 5],
}

impl Published {
    const fn new() -> Self {
        Published { version: AtomicU64::new(0), fields: [const { AtomicU64::new(0) }; 5] }
    }

    /// The line and the counter's value now; `None` if there is none yet, or it is replaced at this moment.
    #[inline]
    fn read(&self) -> Option<(Line, u64)> {
        let version = self.version.load(Ordering::Acquire);
        let line = self.load();
        let ticks = ticks::now();
        fence(Ordering::Acquire);
        let is_complete = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        (is_complete && line.rate != 0).then_some((line, ticks))
    }

    #[inline]
    fn load(&self) -> Line {
        let [ticks, time, rate, holds, anchor_time] = self.fields.each_ref().map(|field| field.load(Ordering::Relaxed));
        Line { ticks, time, rate, holds, anchor_time }
    }

    /// Replaces the line by the one from this anchor on, and returns the time there. `None` if another thread does, or if
    /// it is too early.
    fn extend(&self, anchor: Anchor) -> Option<u64> {
        let version = self.version.load(Ordering::Relaxed);
        let odd = version | 1;
        if version == odd || self.version.compare_exchange(version, odd, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return None;
        }
        fence(Ordering::Release);
        let next = self.load().next(anchor);
        if let Some(Line { ticks, time, rate, holds, anchor_time }) = next {
            for (field, value) in self.fields.iter().zip([ticks, time, rate, holds, anchor_time]) {
                field.store(value, Ordering::Relaxed);
            }
        }
        self.version.store(odd.wrapping_add(1), Ordering::Release);
        next.map(|line| line.time)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn it_agrees_with_the_kernel_and_goes_back_by_no_more_than_its_error() {
        start();
        let (begin, mut last, mut worst) = (Instant::now(), 0, 0);
        while begin.elapsed() < Duration::from_millis(2500) {
            let before = kernel();
            let time = now();
            let after = kernel();
            // Another test may replace the line at this moment.
            assert!(time + 2_000 >= last, "{time} after {last}");
            last = time;
            // Other threads' work between the two is no error of the clock.
            worst = worst.max(before.saturating_sub(time).max(time.saturating_sub(after)));
        }
        assert!(worst < 5_000, "it was off by {worst} ns");
    }

    #[test]
    fn threads_see_one_time() {
        start();
        let shared = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let begin = Instant::now();
                    while begin.elapsed() < Duration::from_millis(300) {
                        let others = shared.load(Ordering::SeqCst);
                        let time = now();
                        assert!(time + 2_000 >= others, "{time} after {others} of another thread");
                        shared.fetch_max(time, Ordering::SeqCst);
                    }
                });
            }
        });
    }

    /// A counter of 2.5 GHz and a clock whose rate changes, as time servers change it.
    fn simulated(rate: impl Fn(u64) -> f64) -> u64 {
        let (mut clock, mut ticks, mut worst) = (7e15, 1_000_000_u64, 0_u64);
        let (mut line, mut last) = (Line::default(), 0);
        for step in 0..400_000 {
            clock += 100_000.0 * rate(step);
            ticks += 250_000;
            let anchor = Anchor { ticks, time: clock as u64 };
            let time = if line.rate != 0 && ticks.wrapping_sub(line.ticks) <= line.holds {
                line.at(ticks)
            } else if let Some(next) = line.next(anchor) {
                line = next;
                next.time
            } else {
                anchor.time
            };
            assert!(time >= last, "{time} after {last}");
            last = time;
            worst = worst.max(time.abs_diff(anchor.time));
        }
        worst
    }

    #[test]
    fn a_rate_that_changes_is_followed() {
        assert!(simulated(|_| 1.0) < 10);
        assert!(simulated(|_| 0.999_9) < 10);
        // By 1 in 10^6 every three seconds, and once by the most that Linux allows.
        assert!(simulated(|step| 1.0 + (step / 30_000 % 2) as f64 * 1e-6) < 2_100);
        assert!(simulated(|step| if step < 200_000 { 1.0 } else { 0.999_5 }) < 1_100_000);
    }

    #[test]
    fn a_machine_that_slept_has_the_kernels_time_at_once() {
        let at = |ticks, time| Anchor { ticks, time };
        let first = Line::default().next(at(1_000, 5_000_000_000)).unwrap_or_default();
        let line = first.next(at(1_000_000_001_000, 1_005_000_000_000)).unwrap_or_default();
        assert_eq!((line.rate, line.holds), (1 << FRACTION, LONGEST));
        // The counter went on for a day, and the clock for a second.
        let woken = line.next(at(86_400_000_000_000_000, 1_006_000_000_000)).unwrap_or_default();
        assert_eq!((woken.time, woken.rate), (1_006_000_000_000, 0));
        // The counter began again.
        let woken = line.next(at(17, 1_006_000_000_000)).unwrap_or_default();
        assert_eq!((woken.time, woken.rate), (1_006_000_000_000, 0));
        assert_eq!(first.next(at(3_000, 5_000_000_002)), None);
    }
}
