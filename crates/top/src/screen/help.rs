//! The page of help.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::put;
use crate::app::App;

const LIVE: &str = "\
up down j k     select; PgUp PgDn g G         Enter  open; q  quit
s S             next, previous sort key       r      reverse the order
/               filter by name, pid, cgroup   Esc    show all, or go back
v               tree of children              space  freeze, and go on
p c u           processes, cgroups, units     P C U  pods, containers, users

RSS      resident memory, up to 8 s old; of a process with all that it shares
sums     of groups and of all count shared memory once (what is still the same
         after a fork in each process); the sum over processes stands beside it
1s 10s 1m  what was touched within such a time (the working set); ~ the error
         bar is wide; - not measured yet
bar      # hot: touched within 1 s       + warm: within a minute
         . cold: not touched for as long as it was watched, up to a minute
         ? unresolved: not looked at yet, or it cannot be made old
TREND    the working set over 1 s, a sign for 3 s; the highest is its maximum
AGE      how long ago its memory was looked at, on average
own CPU  of top, lately. Processes share one budget: many are looked at rarely.
         While top watches a process, no other Isotherm can.";

const REPLAY: &str = "
RECORD   <- -> 1 s   [ ] 10 s   { } 1 min   0 $ begin, end   t time   space stop";

pub(super) fn draw(app: &App, area: Rect, buf: &mut Buffer) {
    let replay = if app.world.position.is_some() { REPLAY } else { "" };
    put(buf, area, 0, Line::styled("isotherm top: help", app.look.title()));
    for (at, text) in LIVE.lines().chain(replay.lines()).enumerate() {
        put(buf, area, at + 2, Line::raw(text));
    }
}
