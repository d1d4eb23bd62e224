//! The way of messages from a context to whoever reads the runner.
//!
//! Memory can be acted on faster than anybody reads about it. So at most [`MAX_UNREAD`] such events
//! of a context are under way; those beyond are dropped, counted, and the count is told before the
//! next message. All other messages (ready, summaries, targets, troubles, the end) are few and
//! never dropped. A context never waits for its reader: the monitor would sample nothing meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use isotherm_act::apply::ActEvent;
use isotherm_core::Time;
use isotherm_sys::clock;

use super::{Event, Message};

/// At most so many events about single actions wait to be read, per context.
const MAX_UNREAD: usize = 4096;

/// A message under way.
#[derive(Debug)]
pub(in crate::run) struct Envelope {
    /// The number of the context's handle: a name can be that of another context later.
    pub(in crate::run) from: u64,
    pub(in crate::run) message: Message,
    /// Held until the message is read, if it takes one of the places for events.
    _place: Option<Unread>,
}

/// One of the places for unread events.
#[derive(Debug)]
struct Unread(Arc<AtomicUsize>);

impl Unread {
    /// A place, if one is free. Only one thread takes places, so none is taken between the look and
    /// the step.
    fn take(unread: &Arc<AtomicUsize>) -> Option<Self> {
        if unread.load(Ordering::Relaxed) >= MAX_UNREAD {
            return None;
        }
        unread.fetch_add(1, Ordering::Relaxed);
        Some(Self(Arc::clone(unread)))
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where a context tells what happens.
#[derive(Debug, Clone)]
pub(in crate::run) struct EventSender {
    from: u64,
    context: String,
    sender: Sender<Envelope>,
    unread: Arc<AtomicUsize>,
    /// Events that were dropped since this was told last.
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

    /// Counts events that were dropped before they came here.
    pub(in crate::run) const fn lose(&mut self, events: u64) {
        self.lost += events;
    }

    /// Tells of events that were dropped, if there were any since this was done last.
    pub(in crate::run) fn send_lost(&mut self) {
        if self.lost > 0 {
            let events = std::mem::take(&mut self.lost);
            self.send_message(clock::now(), Event::Lost { events }, None);
        }
    }

    fn send_message(&self, at: Time, event: Event, place: Option<Unread>) {
        let message = Message { context: self.context.clone(), at, event };
        // It fails when the runner is gone: then nobody is left to be told.
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
            scheme: 0,
            pid: 1,
            action: Action::Pageout,
            range: AddrRange::new(0, 4096),
            asked: 4096,
            done: 4096,
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
        // What is not about single actions always comes through, with the loss in front.
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
        // They were read, so there is room; one was lost meanwhile.
        drop(unread);
        events.send(acted());
        let rest: Vec<_> = messages.try_iter().map(|e| e.message.event).collect();
        assert!(matches!(rest[..], [Event::Lost { events: 1 }, Event::Act(_)]), "{rest:?}");
    }
}
