//! The queue of messages from a context to the reader of the runner.
//!
//! A context can act on memory faster than the reader takes events. So at most [`MAX_UNREAD`]
//! events about single actions of a context are in the queue. Further ones are dropped and counted,
//! and the count is sent before the next message. All other messages (ready, summaries, targets,
//! troubles, the end) are few and never dropped. A context never waits for its reader, because the
//! monitor would not sample meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use isotherm_act::apply::ActEvent;
use isotherm_core::Time;
use isotherm_sys::clock;

use super::{Event, Message};

/// The most events about single actions that wait to be read, per context.
const MAX_UNREAD: usize = 4096;

/// A message in the queue.
#[derive(Debug)]
pub(in crate::run) struct Envelope {
    /// The number of the context's handle. A name is not enough, as a later context can have the
    /// same.
    pub(in crate::run) from: u64,
    pub(in crate::run) message: Message,
    /// For an event about a single action: its place among the unread ones, held until it is read.
    _place: Option<Unread>,
}

/// One of the [`MAX_UNREAD`] places for unread events.
#[derive(Debug)]
struct Unread(Arc<AtomicUsize>);

impl Unread {
    /// Takes a place if one is free. Only one thread takes places, so the count cannot grow between
    /// the load and the add.
    fn take(unread: &Arc<AtomicUsize>) -> Option<Self> {
        if unread.load(Ordering::Relaxed) >= MAX_UNREAD {
            return None;
        }
        unread.fetch_add(1, Ordering::Relaxed);
        Some(Self(Arc::clone(unread)))
    }
}

impl Envelope {
    /// A message of the runner itself, which is of no handle.
    pub(in crate::run) fn of_runner(context: String, event: Event) -> Self {
        let message = Message { context, at: clock::now(), event };
        Self { from: u64::MAX, message, _place: None }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The sending end of a context's messages.
#[derive(Debug, Clone)]
pub(in crate::run) struct EventSender {
    from: u64,
    context: String,
    sender: Sender<Envelope>,
    unread: Arc<AtomicUsize>,
    /// Events that were dropped since a loss was reported last.
    lost: u64,
}

impl EventSender {
    pub(in crate::run) fn new(from: u64, context: &str, sender: Sender<Envelope>) -> Self {
        Self { from, context: context.to_owned(), sender, unread: Arc::default(), lost: 0 }
    }

    pub(in crate::run) fn send(&mut self, event: Event) {
        self.send_at(clock::now(), event);
    }

    pub(in crate::run) fn send_at(&mut self, at: Time, event: Event) {
        let mut place = None;
        if matches!(event, Event::Act(ActEvent::Acted { .. })) {
            place = Unread::take(&self.unread);
            if place.is_none() {
                self.lost += 1;
                return;
            }
        }
        self.send_lost();
        self.send_message(at, event, place);
    }

    /// Counts events that the actor dropped before they came here.
    pub(in crate::run) const fn lose(&mut self, events: u64) {
        self.lost += events;
    }

    /// Reports how many events were dropped since the last report, if any were.
    pub(in crate::run) fn send_lost(&mut self) {
        if self.lost > 0 {
            let events = std::mem::take(&mut self.lost);
            self.send_message(clock::now(), Event::Lost { events }, None);
        }
    }

    fn send_message(&self, at: Time, event: Event, place: Option<Unread>) {
        let message = Message { context: self.context.clone(), at, event };
        // Sending fails only when the runner is gone. The message then has no reader, and is
        // dropped.
        self.sender.send(Envelope { from: self.from, message, _place: place }).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use isotherm_core::AddrRange;
    use isotherm_core::scheme::Action;

    use super::*;

    fn acted() -> Event {
        Event::Act(ActEvent::Acted {
            at: Time(0),
            scheme: "s".to_owned(),
            pid: 1,
            action: Action::Pageout,
            range: AddrRange::new(0, 4096),
            asked: 4096,
            done: 4096,
            dry_run: false,
            ns: 1,
        })
    }

    #[test]
    fn events_are_bounded_and_losses_are_told() {
        let (sender, messages) = channel();
        let mut events = EventSender::new(0, "a", sender);
        let beyond = 1000;
        for _ in 0..MAX_UNREAD + beyond {
            events.send(acted());
        }
        // Other messages are never dropped, and the report of the loss comes before them.
        events.send(Event::Summary(Box::default()));
        events.send(Event::Committed);
        events.send(acted());
        let unread: Vec<Envelope> = messages.try_iter().collect();
        let (acts, others): (Vec<_>, Vec<_>) =
            unread.iter().partition(|e| matches!(e.message.event, Event::Act(_)));
        assert_eq!(acts.len(), MAX_UNREAD);
        let others: Vec<_> = others.iter().map(|e| &e.message.event).collect();
        let [Event::Lost { events: lost }, Event::Summary(_), Event::Committed] = others[..] else {
            panic!("{others:?}")
        };
        assert_eq!(*lost, beyond as u64);
        // The messages were read, so there is room again. One event was lost meanwhile.
        drop(unread);
        events.send(acted());
        let rest: Vec<_> = messages.try_iter().map(|e| e.message.event).collect();
        assert!(matches!(rest[..], [Event::Lost { events: 1 }, Event::Act(_)]), "{rest:?}");
    }
}
