//! What happens, on its way to the clients that follow it.
//!
//! Every follower has a queue with room for a few megabytes. Who sends never waits: when a queue is
//! full its oldest messages are dropped and counted, and the follower is told how many. A message
//! is made into text once, and only if somebody wants it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most messages in a queue.
const MOST_MESSAGES: usize = 1024;
/// The most bytes in a queue. One message that is larger is kept while it is alone.
const MOST_BYTES: usize = 4 << 20;

/// The shortest time between two snapshots, except for who wants every window, and between two
/// accounts.
pub(crate) const LEAST: Duration = Duration::from_millis(100);

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Snapshot,
    Event,
    Accounts,
}

/// What a follower wants to hear.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    pub(crate) snapshots: bool,
    pub(crate) events: bool,
    pub(crate) accounts: bool,
    /// Only of this policy.
    pub(crate) policy: Option<String>,
    /// The time between two snapshots of a context, and between two accounts of a policy. Zero:
    /// every window is wanted.
    pub(crate) every: Duration,
}

impl Wish {
    fn is_for(&self, kind: Kind, policy: &str) -> bool {
        let wanted = match kind {
            Kind::Snapshot => self.snapshots,
            Kind::Event => self.events,
            Kind::Accounts => self.accounts,
        };
        wanted && self.policy.as_deref().is_none_or(|only| only == policy)
    }
}

/// All followers.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    followers: Mutex<Vec<Arc<Queue>>>,
    /// How thrifty the agent is: each step leaves a quarter of the room in every queue.
    thrift: AtomicU32,
}

#[derive(Debug)]
struct Queue {
    wish: Wish,
    inner: Mutex<Inner>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    messages: VecDeque<Arc<str>>,
    bytes: usize,
    lost: u64,
    /// When something of this kind was last taken, by policy and context.
    last: BTreeMap<(Kind, String), Instant>,
}

/// What comes next for a follower.
#[derive(Debug, Default)]
pub(crate) struct Next {
    /// Messages that were dropped before this one.
    pub(crate) lost: u64,
    pub(crate) message: Option<Arc<str>>,
}

/// One follower. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Follower {
    hub: Arc<Hub>,
    queue: Arc<Queue>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    pub(crate) fn follow(self: &Arc<Self>, wish: Wish) -> Follower {
        let queue = Queue { wish, inner: Mutex::default(), filled: Condvar::new() };
        let queue = Arc::new(queue);
        locked(&self.followers).push(Arc::clone(&queue));
        Follower { hub: Arc::clone(self), queue }
    }

    /// Be as thrifty as this from now on. What waits already goes with the next message.
    pub(crate) fn set_thrift(&self, level: u32) {
        self.thrift.store(level, Ordering::Relaxed);
    }

    /// How often somebody wants this, if anybody does.
    pub(crate) fn every(&self, kind: Kind, policy: &str) -> Option<Duration> {
        let followers = locked(&self.followers);
        followers.iter().filter(|f| f.wish.is_for(kind, policy)).map(|f| f.wish.every).min()
    }

    /// Sends a message to everybody who wants it. `about`: the context, so that each comes as often
    /// as it is wanted.
    pub(crate) fn send(
        &self,
        kind: Kind,
        policy: &str,
        about: &str,
        text: impl FnOnce() -> String,
    ) {
        let followers = locked(&self.followers);
        let mut wanting = followers.iter().filter(|f| f.wish.is_for(kind, policy)).peekable();
        if wanting.peek().is_none() {
            return;
        }
        let text: Arc<str> = text().into();
        let most_bytes = MOST_BYTES >> (2 * self.thrift.load(Ordering::Relaxed));
        for follower in wanting {
            follower.push(kind, (policy, about), &text, most_bytes);
        }
    }
}

impl Queue {
    fn push(&self, kind: Kind, of: (&str, &str), text: &Arc<str>, most_bytes: usize) {
        let (policy, about) = of;
        let mut inner = locked(&self.inner);
        if kind != Kind::Event {
            let now = Instant::now();
            let key = (kind, format!("{policy}/{about}"));
            // Whoever sends is a little early or late, so a tenth of the time is forgiven.
            let least = self.wish.every * 9 / 10;
            if inner.last.get(&key).is_some_and(|last| now.duration_since(*last) < least) {
                return;
            }
            inner.last.insert(key, now);
        }
        inner.bytes += text.len();
        inner.messages.push_back(Arc::clone(text));
        while inner.messages.len() > MOST_MESSAGES
            || (inner.bytes > most_bytes && inner.messages.len() > 1)
        {
            if let Some(dropped) = inner.messages.pop_front() {
                inner.bytes -= dropped.len();
                inner.lost += 1;
            }
        }
        drop(inner);
        self.filled.notify_one();
    }
}

impl Follower {
    /// Waits for the next message, at most for `patience`.
    pub(crate) fn next(&self, patience: Duration) -> Next {
        let inner = locked(&self.queue.inner);
        let waited = self.queue.filled.wait_timeout_while(inner, patience, |inner| {
            inner.messages.is_empty() && inner.lost == 0
        });
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let message = inner.messages.pop_front();
        inner.bytes -= message.as_ref().map_or(0, |message| message.len());
        Next { lost: std::mem::take(&mut inner.lost), message }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        locked(&self.hub.followers).retain(|queue| !Arc::ptr_eq(queue, &self.queue));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(policy: Option<&str>) -> Wish {
        Wish { events: true, policy: policy.map(Into::into), ..Wish::default() }
    }

    #[test]
    fn a_slow_reader_loses_the_oldest_and_is_told_how_many() {
        let hub = Arc::new(Hub::default());
        let (slow, quick) = (hub.follow(events(None)), hub.follow(events(Some("a"))));
        for n in 0..MOST_MESSAGES + 10 {
            hub.send(Kind::Event, "a", "", || n.to_string());
            assert_eq!(quick.next(Duration::ZERO).message.as_deref(), Some(&*n.to_string()));
        }
        let first = slow.next(Duration::ZERO);
        assert_eq!((first.lost, first.message.as_deref()), (10, Some("10")));
        assert_eq!(slow.next(Duration::ZERO).lost, 0);
        // No room by bytes, either.
        let large = "x".repeat(MOST_BYTES / 2);
        for _ in 0..5 {
            hub.send(Kind::Event, "a", "", || large.clone());
        }
        assert_eq!(slow.next(Duration::ZERO).lost, MOST_MESSAGES as u64 - 2 + 3);
        assert!(locked(&slow.queue.inner).bytes <= MOST_BYTES);
        // Less room, once memory is short.
        hub.set_thrift(2);
        hub.send(Kind::Event, "a", "", || "small".to_owned());
        assert!(locked(&slow.queue.inner).bytes <= MOST_BYTES / 16);
        assert_eq!(slow.next(Duration::ZERO).message.as_deref(), Some("small"));
    }

    #[test]
    fn nobody_who_wants_it_means_no_text() {
        let hub = Arc::new(Hub::default());
        let never = || -> String { panic!("nobody wants this") };
        hub.send(Kind::Event, "a", "", never);
        let other = hub.follow(events(Some("b")));
        hub.send(Kind::Event, "a", "", never);
        hub.send(Kind::Snapshot, "b", "", never);
        assert!(other.next(Duration::ZERO).message.is_none());
        drop(other);
        hub.send(Kind::Event, "b", "", never);
        assert_eq!(hub.every(Kind::Event, "b"), None);
    }

    #[test]
    fn each_context_comes_as_often_as_wanted() {
        let hub = Arc::new(Hub::default());
        let every = Duration::from_secs(3600);
        let follower = hub.follow(Wish { snapshots: true, every, ..Wish::default() });
        assert_eq!(hub.every(Kind::Snapshot, "a"), Some(every));
        for context in ["x", "y", "x", "y"] {
            hub.send(Kind::Snapshot, "a", context, || context.to_owned());
        }
        let all = [(); 3].map(|()| follower.next(Duration::ZERO).message.map(|m| m.to_string()));
        assert_eq!(all, [Some("x".to_owned()), Some("y".to_owned()), None]);
    }
}
