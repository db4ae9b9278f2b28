//! A phase with clients: the client with the smallest local time goes next, as in `imbrex ycsb`.
//!
//! A write starts when the one before it has ended ([`WriteTurns`]), so a waiting writer holds up
//! all others.

use super::{Bench, Tally, Value};
use crate::client_phase::{ClientLatencies, ClientPhase};
use imbrex_bench::write_turns::WriteTurns;
use imbrex_bench::ycsb::pace::{ClientSchedule, Pace, Timing};
use imbrex_clockwork::{ClientId, Clock};
use imbrex_engine::EngineError;
use imbrex_workload::arrivals::{ArrivalEnd, ArrivalError};
use imbrex_workload::ycsb::stream::{YcsbOp, YcsbStream};
use std::sync::{Arc, Mutex};

/// One running client.
struct Client {
    actor: ClientId,
    beat: ClientSchedule,
    /// The operations that it still has to do. In an open loop any free client takes the next one.
    left: u64,
}

impl Bench {
    /// The pacing of `offer`.
    ///
    /// # Errors
    /// [`ArrivalError`]: the rate or a parameter is invalid.
    pub(super) fn pace(&self, offer: &ClientPhase, seed: u64) -> Result<Pace, ArrivalError> {
        let model = offer.arrivals.and_then(|open| Some((open.source.model()?, open.rate_per_s)));
        let Some((model, rate_per_s)) = model else { return Ok(Pace::BackToBack) };
        let end = ArrivalEnd::Operations(offer.count);
        let series = model.series(rate_per_s as f64, end, seed)?;
        Ok(Pace::Open(Mutex::new(Box::new(series))))
    }

    /// Runs the clients of `offer`, paced by `pace`.
    pub(super) fn offer(
        &self,
        offer: &ClientPhase,
        pace: Pace,
        stream: &mut YcsbStream,
        tally: &mut Tally<'_>,
    ) -> Result<ClientLatencies, EngineError> {
        let clock: &dyn Clock = &*self.runtime.clock;
        let timing = Timing::new(clock, pace, u64::MAX);
        let began_ns = timing.began_ns();
        let shared = matches!(timing.pace, Pace::Open(_));
        let client_count = u64::from(offer.client_count.max(1));
        let client = |index: u64| Client {
            actor: self.world.client(&format!("client {index}")),
            beat: ClientSchedule::new(began_ns),
            left: match shared {
                true => u64::MAX,
                false => offer.count / client_count + u64::from(index < offer.count % client_count),
            },
        };
        let mut at_work: Vec<Client> = (0..client_count).map(client).collect();
        at_work.retain(|client| client.left > 0);
        let mut value = Value::new(offer.value_len_bytes, self.compresses);
        let (mut offered, mut ended_ns) = (ClientLatencies::default(), began_ns);
        let turns = WriteTurns::new(Arc::clone(&self.runtime.clock));
        while let Some(at) = self.next_client(&at_work) {
            if tally.is_stopped {
                break;
            }
            let client = &mut at_work[at];
            let step = self.world.as_client(client.actor, || {
                let Some(intended_ns) = timing.next(&mut client.beat) else { return Ok(false) };
                let start_ns = clock.now_ns();
                clock.advance_to_ns(start_ns + offer.call_ns);
                let next = stream.next_op();
                let is_write = !matches!(next, YcsbOp::Read(_) | YcsbOp::Scan(..));
                let mut work = || {
                    self.let_others_work();
                    match offer.scans_in_memory && matches!(next, YcsbOp::Scan(..)) {
                        true => Ok(()),
                        false => self.do_one(next, tally.ops, false, &mut value, tally),
                    }
                };
                if is_write { turns.in_turn(work) } else { work() }?;
                stream.ended(next);
                let end_ns = clock.now_ns();
                offered.service.note(end_ns - start_ns);
                offered.response.note(end_ns - intended_ns);
                offered.trace.note(start_ns - began_ns, end_ns - start_ns);
                tally.note_taking(end_ns - start_ns);
                client.left -= 1;
                Ok(client.left > 0)
            });
            ended_ns = ended_ns.max(self.world.client_now_ns(client.actor));
            if !step? {
                at_work.remove(at);
            }
        }
        clock.advance_to_ns(ended_ns);
        Ok(offered)
    }

    fn next_client(&self, at_work: &[Client]) -> Option<usize> {
        let now_ns = |at: &usize| (self.world.client_now_ns(at_work[*at].actor), *at);
        (0..at_work.len()).min_by_key(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use crate::arrivals::ArrivalSource;
    use crate::client_phase::{ClientPhase, OpenLoop};
    use crate::results::PhaseResult;
    use crate::spec::{LoadOrder, Phase, RunSpec, Tune};
    use imbrex_bench::emulated::{DriveRule, DriveSpec};
    use imbrex_workload::ycsb::presets::YcsbWorkload;
    use std::sync::atomic::AtomicU64;

    const MIB: u64 = 1 << 20;
    const CALL_NS: u64 = 50_000;

    fn inserts(count: u64, client_count: u32, rate_per_s: Option<u64>) -> ClientPhase {
        let open = |rate_per_s| OpenLoop { source: ArrivalSource::Constant, rate_per_s };
        ClientPhase {
            workload: YcsbWorkload::Inserts,
            count,
            value_len_bytes: 1024,
            client_count,
            arrivals: rate_per_s.map(open),
            call_ns: CALL_NS,
            scans_in_memory: false,
        }
    }

    /// A store in bands of a megabyte, ten of which form level 0.
    fn run(offers: &[ClientPhase], keeps_writes: bool) -> Vec<PhaseResult> {
        let rule = DriveRule::Zoned { zone_len_bytes: MIB };
        let drive = DriveSpec::whole("st1000dm003", rule, 256 * MIB).beside("ssd120", 64 * MIB);
        let tune = Tune { keeps_writes, ..Tune::default().compaction_reads(MIB).without_rest() };
        let phases = offers.iter().map(|offer| Phase::Clients(*offer)).collect();
        let spec = RunSpec::new("smrdb-offload", drive, phases).tuned(tune);
        super::super::execute(&spec, 1, 0, &AtomicU64::new(0), &|| false).unwrap().phases
    }

    #[test]
    fn logs_of_a_layout_of_one_drive_go_to_the_second_drive() {
        let rule = DriveRule::Interlaced { track_len_bytes: MIB / 4 };
        let alone = DriveSpec::whole("st500dm002", rule, 256 * MIB);
        let run = |drive: DriveSpec| {
            let load = Phase::load(LoadOrder::Once, 24 * MIB, 1008);
            let spec = RunSpec::new("imr-m", drive, vec![load]);
            let result = super::super::execute(&spec, 1, 0, &AtomicU64::new(0), &|| false).unwrap();
            result.phases.into_iter().next().unwrap()
        };
        let [with, without] = [run(alone), run(alone.with_logs_on_flash(64 * MIB))];
        assert!(24 * MIB <= without.totals.log_bytes, "{:?}", without.totals);
        assert_eq!(with.tiers.beside_file_count, 0);
        assert!(without.tiers.beside_file_count > 0);
        assert_eq!(without.tiers.fallback_count, 0);
        let written = |phase: &PhaseResult| phase.totals.drive_written_bytes;
        assert!(written(&without) < written(&with), "it does not write the log");
    }

    #[test]
    fn back_to_back_a_client_waits_for_its_answer_and_in_an_open_loop_for_its_time() {
        let [alone, four, open] = [(1, None), (4, None), (4, Some(1000))]
            .map(|(clients, rate)| run(&[inserts(2_000, clients, rate)], true).remove(0));
        for phase in [&alone, &four, &open] {
            let offered = phase.offered.as_ref().unwrap();
            assert_eq!(phase.ops, 2_000);
            assert!(CALL_NS as f64 / 1e6 <= offered.service.mean_ms());
            assert!(offered.service.mean_ms() <= offered.response.mean_ms() + 1e-9);
            assert!(!offered.trace.points().is_empty());
        }
        let call_rate = 1e9 / CALL_NS as f64;
        assert!(alone.ops_per_second() <= call_rate, "{}", alone.ops_per_second());
        let (alone, four) = (alone.ops_per_second(), four.ops_per_second());
        assert!(1.5 * alone < four && four <= 4.0 * call_rate, "{alone} {four}");
        assert!((open.ops_per_second() / 1000.0 - 1.0).abs() < 0.01, "{}", open.ops_per_second());
    }

    #[test]
    fn writes_are_offloaded_unless_they_are_kept() {
        let [offloads, keeps] =
            [false, true].map(|keeps| run(&[inserts(24_000, 8, None)], keeps).remove(0));
        assert_eq!(keeps.totals_at_last_op.offloaded_bytes, 0);
        let user_bytes = offloads.totals_at_last_op.user_bytes;
        assert!(user_bytes / 10 < offloads.totals_at_last_op.offloaded_bytes, "{offloads:?}");
        assert!(offloads.tiers.beside_bytes > 0 && offloads.tiers.fallback_count == 0);
        assert!(keeps.ops_per_second() < offloads.ops_per_second());
        // A waiting writer holds up all others, so each of them is slow then, not only one.
        let slow = keeps.offered.as_ref().unwrap().service.slower_than(100.0);
        assert!(slow >= 8, "{slow}");
    }

    #[test]
    fn scans_in_memory_do_not_reach_the_store() {
        let scans = ClientPhase {
            workload: YcsbWorkload::Scans { scan_percent: 70 },
            ..inserts(1_000, 1, None)
        };
        let [read, spared] = [false, true].map(|scans_in_memory| {
            let scans = ClientPhase { scans_in_memory, ..scans };
            run(&[inserts(4_000, 1, None), scans], true).remove(1)
        });
        assert!(read.totals.drive_reads > 100, "{}", read.totals.drive_reads);
        assert!(spared.totals.drive_reads < 10, "{}", spared.totals.drive_reads);
        let share = read.totals.user_bytes as f64 / (1_000.0 * (16.0 + 1024.0));
        assert!((0.25..0.35).contains(&share), "{share}");
        assert_eq!(read.totals.user_bytes, spared.totals.user_bytes);
    }
}
