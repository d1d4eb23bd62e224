//! Checks that must hold for every request of a pass and for its charges.

use isotherm_core::{Applied, Context, Request, TargetId, Time};

/// The pass under way, and the quota windows.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// By scheme: the target's index and the address up to which the pass has come.
    reached: Vec<(usize, u64)>,
    /// Bytes of the targets when the pass began.
    bytes: Option<Vec<(TargetId, u64)>>,
    /// By scheme: when the quota window began, and what was charged and asked for in it.
    windows: Vec<((Option<Time>, u64), u64)>,
    /// Requests of the pass under way, and of all.
    nr_requests: u64,
    pub(crate) nr_all: u64,
    /// Answers that cut a region in two.
    nr_cuts: u64,
    nr_regions: u64,
}

fn bytes(ctx: &Context) -> Vec<(TargetId, u64)> {
    ctx.targets().iter().map(|t| (t.id, t.len())).collect()
}

impl Ledger {
    /// Checks a request before it is carried out.
    pub(crate) fn asked(&mut self, ctx: &Context) {
        let (request, scheme) = ctx.request();
        if self.bytes.is_none() {
            self.bytes = Some(bytes(ctx));
            self.nr_regions = ctx.targets().iter().map(|t| t.regions.len() as u64).sum();
        }
        self.nr_requests += 1;
        self.nr_all += 1;
        if self.nr_requests % 64 == 1 {
            ctx.verify();
        }
        let index = ctx.targets().iter().position(|t| t.id == request.target).expect("it is there");
        let regions = &ctx.targets()[index].regions;
        assert!(regions.len() < 100_000, "regions without end");
        let at = regions.partition_point(|r| r.range.start < request.range.start);
        assert_eq!(regions[at].range, request.range, "a request is for a region");
        assert_eq!(request.action, scheme.action);
        let nr_schemes = ctx.schemes().len();
        self.reached.resize(nr_schemes.max(self.reached.len()), (0, 0));
        let reached = &mut self.reached[request.scheme];
        let this = (index, request.range.start);
        // The kernel, and so `strict`, asks again about what a later scheme cut off.
        let once = !ctx.attrs().strict || request.scheme + 1 == nr_schemes;
        assert!(!once || *reached <= this, "{this:?} was asked about before: {reached:?}");
        *reached = (index, request.range.end);
        let installed = &ctx.schemes()[request.scheme];
        assert!(installed.is_active());
        let limit = scheme.max_nr_snapshots;
        assert!(limit == 0 || installed.stats().nr_snapshots < limit);
    }

    /// Checks the result of a request.
    pub(crate) fn answered(&mut self, ctx: &Context, request: &Request, applied: &Applied) {
        let installed = &ctx.schemes()[request.scheme];
        let (quota, state) = (&installed.scheme().quota, installed.quota());
        let settled = if applied.covered == 0 { applied.skip } else { applied.covered };
        if !ctx.attrs().strict && 0 < settled && settled < request.range.len() {
            self.nr_cuts += 1;
            // The rest of the region is asked about next.
            self.reached[request.scheme].1 = request.range.start + settled;
        }
        // Bytes that failed leave quota for another cut.
        self.nr_cuts += u64::from(ctx.attrs().strict && quota.fail_charge.denom != 0);
        let nr = self.windows.len().max(ctx.schemes().len());
        self.windows.resize(nr, ((None, 0), 0));
        let (window, sum) = &mut self.windows[request.scheme];
        // Without a sample interval no time passes between two windows.
        let key = (state.charged_from, state.total_charged_sz);
        if *window != key {
            (*window, *sum) = (key, 0);
        }
        if !state.is_limited(quota) {
            *sum = 0;
            return;
        }
        *sum += if ctx.attrs().strict { request.range.len() } else { applied.asked };
        if quota.fail_charge.denom != 0 {
            // Failed bytes are not charged.
            *sum = state.charged_sz;
        }
        assert!(*sum <= state.esz, "{sum} of {}", state.esz);
        assert!(state.charged_sz <= state.esz, "{} of {}", state.charged_sz, state.esz);
    }

    /// Notes that the next wish is no request.
    pub(crate) fn pass_over(&mut self, ctx: &Context) {
        let Some(before) = self.bytes.take() else { return };
        assert_eq!(bytes(ctx), before, "a pass only cuts and joins");
        if !ctx.attrs().strict {
            let most = self.nr_regions.max(2 * ctx.attrs().max_nr_regions * before.len() as u64);
            let fixed = before.len() as u64 * 20 + 2 * ctx.schemes().len() as u64;
            let nr: u64 = ctx.targets().iter().map(|t| t.regions.len() as u64).sum();
            assert!(nr <= most + fixed, "{} regions became {nr}", self.nr_regions);
        }
        // Each scheme asks about a piece once. Pieces are made by answers, by the bounds of address
        // filters, where a quota ends, and where it went on.
        let schemes = ctx.schemes();
        let nr = schemes.len() as u64;
        let bounds: u64 = schemes.iter().map(|s| 2 * s.scheme().filters.core.len() as u64).sum();
        let pieces = self.nr_regions + self.nr_cuts + before.len() as u64 * bounds + 2 * nr;
        assert!(self.nr_requests <= nr * pieces, "{} for {pieces}", self.nr_requests);
        self.reached.clear();
        (self.nr_requests, self.nr_cuts) = (0, 0);
    }
}
