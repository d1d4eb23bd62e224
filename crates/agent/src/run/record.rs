//! The record that a context writes of what it sees, if it was asked to.

use std::path::PathBuf;

use super::context::Work;
use super::message::Event;
use crate::monitor::Happened;
use crate::recorder::{self, Recorder};

impl Work {
    /// Records what has just happened.
    pub(super) fn record(&mut self, happened: &Happened) {
        let Some(recorder) = &mut self.recorder else { return };
        recorder.record(&mut self.monitor, happened);
        for event in recorder.take_events() {
            // All other events are told by the context itself.
            if let recorder::Event::Lost(err) = event {
                self.events.send(Event::Unrecorded { text: err.to_string() });
            }
        }
    }

    /// Finishes the record, and begins one at this path, if there is one.
    pub(super) fn begin_record(&mut self, path: Option<PathBuf>) {
        let former = self.recorder.take();
        let finished = former.map(|r| r.finish(&mut self.monitor, "another record goes on"));
        if let Some(Err(err)) = finished {
            self.events.send(Event::Unrecorded { text: err.to_string() });
        }
        let Some(path) = path else { return };
        let command = ["isotherm", "agent", &self.policy.name].map(str::to_owned);
        let created = Recorder::builder(path).command(command).create(&mut self.monitor);
        match created.and_then(|mut recorder| recorder.keep().map(|()| recorder)) {
            Ok(mut recorder) => {
                recorder.take_over(&self.targets);
                self.recorder = Some(recorder);
            }
            Err(err) => self.events.send(Event::Unrecorded { text: err.to_string() }),
        }
    }
}
