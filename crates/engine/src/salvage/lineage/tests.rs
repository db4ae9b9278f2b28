use super::*;
use crate::table::{Part, RosterKeyspace};

/// A store in the making: tables with the origins that a store would give them.
#[derive(Default)]
struct Story {
    facts: BTreeMap<u64, TableFact>,
    damaged: BTreeSet<u64>,
}

fn key(letter: char) -> Vec<u8> {
    letter.to_string().into_bytes()
}

impl Story {
    /// Adds table `id` from keys `range`, as part `number` of group `group`.
    fn table(&mut self, id: u64, range: [char; 2], origin: Origin) -> &mut TableFact {
        let range = Some((key(range[0]), key(range[1])));
        self.facts.entry(id).or_insert(TableFact { origin: Some(origin), roster: None, range })
    }

    fn flush(&mut self, id: u64, at: u64, logs: (u64, u64)) -> &mut TableFact {
        let origin = Origin { run: id, logs: Some(logs), ..origin(id, 0, at, (0, true)) };
        self.table(id, ['a', 'z'], origin)
    }

    fn merge(
        &mut self,
        id: u64,
        range: [char; 2],
        (group, at): (u64, u64),
        part: (u64, bool),
        inputs: &[u64],
    ) -> &mut TableFact {
        let origin = Origin { inputs: inputs.to_vec(), ..origin(group, 1, at, part) };
        self.table(id, range, origin)
    }

    fn check(&self, expected: &str) {
        let plans = plan(&self.facts, &mut |table| !self.damaged.contains(&table));
        let mut shown = String::new();
        for plan in &plans {
            shown += &format!("{} from log {}:", plan.name, plan.log_floor);
            for run in &plan.runs {
                shown += &format!(" L{} {:?}", run.level, run.tables);
            }
            for gap in &plan.gaps {
                let text = |key: &Option<Vec<u8>>| {
                    key.as_ref().map_or("?".to_owned(), |key| key.escape_ascii().to_string())
                };
                let older = if gap.has_older { " over older" } else { "" };
                let (above, below) = (text(&gap.above), text(&gap.below));
                shown += &format!(" gap {:?} {above}..{below}{older}", gap.table);
            }
            shown += if plan.has_roster { "\n" } else { " without roster\n" };
        }
        assert_eq!(shown, expected);
    }
}

fn origin(group: u64, level: u8, at: u64, (number, is_last): (u64, bool)) -> Origin {
    Origin {
        group,
        level,
        stamp: Stamp { epoch: 1, commit_count: at },
        part: Part { output: 0, output_count: 1, number, is_last },
        ..Origin::default()
    }
}

fn roster(floor: u64, runs: &[(u8, u64, &[u64])]) -> Option<Roster> {
    let run = |&(level, run, tables): &(u8, u64, &[u64])| RosterRun {
        level,
        run,
        tables: tables.to_vec(),
    };
    let default =
        RosterKeyspace { id: 0, log_floor: floor, newest_table: 0, name: "default".to_owned() };
    Some(Roster {
        keyspaces: vec![default],
        next_keyspace: 1,
        last_seq: 0,
        runs: runs.iter().map(run).collect(),
        marks: Vec::new(),
        fronts: Vec::new(),
    })
}

/// Tables 1 and 2 were merged into 4, and 4 into 6, which says nothing about 1 and 2. The roster in
/// the flush 7 does.
#[test]
fn the_newest_roster_decides() {
    let mut story = Story::default();
    story.flush(1, 0, (1, 2)).roster = roster(1, &[]);
    story.flush(2, 1, (2, 3));
    story.merge(4, ['a', 'z'], (3, 2), (0, true), &[1, 2]).roster = roster(3, &[(0, 2, &[2])]);
    story.merge(6, ['a', 'z'], (5, 3), (0, true), &[4]);
    story.flush(7, 4, (3, 5)).roster = roster(3, &[(1, 0, &[6])]);
    story.check("default from log 5: L0 [7] L1 [6]\n");
    // A flush that was not committed: its logs are needed as well.
    story.facts.get_mut(&7).unwrap().origin.as_mut().unwrap().part.is_last = false;
    story.check("default from log 3: L0 [7] L1 [6]\n");
}

#[test]
fn a_merge_counts_if_it_is_whole_or_its_inputs_are_not() {
    let mut story = Story::default();
    story.flush(1, 0, (1, 2));
    story.merge(2, ['a', 'm'], (9, 0), (0, true), &[]).roster = None;
    story.flush(3, 5, (2, 3)).roster = roster(2, &[(0, 1, &[1]), (1, 0, &[2])]);
    story.merge(5, ['a', 'f'], (4, 6), (0, false), &[1, 2]);
    // The second table of the merge is missing: its inputs still count.
    story.check("default from log 3: L0 [3, 1] L1 [2]\n".replace("[3, 1]", "[3] L0 [1]").as_str());
    story.merge(6, ['g', 'm'], (4, 6), (1, true), &[1, 2]);
    story.check("default from log 3: L0 [3] L1 [5, 6]\n");
    story.damaged.insert(6);
    story.check("default from log 3: L0 [3] L0 [1] L1 [2]\n");
    // An input was overwritten already, so the merge was committed.
    story.facts.remove(&2);
    story.check("default from log 3: L0 [3] L1 [5, 6] gap None ?..? over older\n");
    story.facts.remove(&6);
    story.check("default from log 3: L0 [3] L1 [5] gap None ?..? over older\n");
}

#[test]
fn what_is_listed_and_missing_leaves_a_gap() {
    let mut story = Story::default();
    for (id, range) in [(1, ['a', 'c']), (3, ['m', 'p'])] {
        story.merge(id, range, (8, 0), (id, false), &[]);
    }
    let runs: &[(u8, u64, &[u64])] = &[(1, 0, &[1, 2, 3, 4]), (2, 0, &[5])];
    story.flush(9, 5, (2, 3)).roster = roster(2, runs);
    story.check(
        "default from log 3: L0 [9] L1 [1, 3] gap Some(2) c..m over older \
         gap Some(4) p..? over older gap Some(5) ?..?\n",
    );
}

/// The newest table is younger than the last roster of its keyspace, but another table knows of it.
#[test]
fn a_newest_table_that_is_missing_puts_its_keyspace_in_doubt() {
    let mut story = Story::default();
    story.flush(1, 0, (1, 2));
    story.flush(3, 5, (2, 3)).roster = roster(2, &[(0, 1, &[1])]);
    story.facts.get_mut(&3).unwrap().roster.as_mut().unwrap().keyspaces[0].newest_table = 2;
    story.check("default from log 3: L0 [3] L0 [1] gap Some(2) ?..? over older\n");
    story.merge(4, ['a', 'z'], (9, 6), (0, true), &[2, 3]);
    story.check("default from log 3: L0 [1] L1 [4]\n");
}

#[test]
fn without_rosters_only_named_inputs_are_dead() {
    let mut story = Story::default();
    story.flush(1, 0, (1, 2));
    story.flush(2, 1, (2, 3));
    story.merge(4, ['a', 'z'], (3, 2), (0, true), &[1]);
    story.check("default from log 0: L0 [4] L0 [2] without roster\n");
    story.damaged.insert(4);
    story.check("default from log 0: L0 [4] L0 [2] L0 [1] without roster\n");
}

/// Keyspace 1 is missing in a newer roster, although its number was given: it was dropped.
#[test]
fn dropped_keyspaces_stay_away() {
    let mut story = Story::default();
    story.flush(1, 0, (1, 2)).origin.as_mut().unwrap().keyspace = 1;
    story.flush(2, 1, (1, 2)).roster = roster(1, &[]);
    story.check("default from log 2: L0 [2]\nkeyspace-1 from log 0: L0 [1] without roster\n");
    story.facts.get_mut(&2).unwrap().roster.as_mut().unwrap().next_keyspace = 2;
    story.check("default from log 2: L0 [2]\n");
}

/// Flush 5 was merged up to the key m into 8, together with 1. What it has before m is in 8, which may
/// have dropped deletes. A later roster says the same.
#[test]
fn a_table_with_a_front_is_read_from_there() {
    let mut story = Story::default();
    story.flush(1, 0, (1, 2));
    story.flush(5, 1, (2, 3)).roster = roster(2, &[(0, 1, &[1])]);
    let stop = StopMark { until: key('m'), kept: vec![5] };
    let merged = story.merge(8, ['a', 'l'], (7, 2), (0, true), &[1]);
    merged.origin.as_mut().unwrap().stop = Some(stop);
    let fronts = |story: &Story| {
        let plans = plan(&story.facts, &mut |table| !story.damaged.contains(&table));
        plans[0].fronts.clone().into_iter().collect::<Vec<_>>()
    };
    story.check("default from log 3: L0 [5] L1 [8]\n");
    assert_eq!(fronts(&story), [(5, key('m'))]);

    let mut later = roster(3, &[(0, 5, &[5]), (1, 0, &[8])]).unwrap();
    later.fronts.push((5, key('m')));
    story.flush(9, 4, (3, 4)).roster = Some(later);
    story.check("default from log 4: L0 [9] L0 [5] L1 [8]\n");
    assert_eq!(fronts(&story), [(5, key('m'))]);

    // It may not have been committed, and all that it read is there.
    story.facts.remove(&9);
    story.facts.get_mut(&8).unwrap().origin.as_mut().unwrap().part.is_last = false;
    story.check("default from log 3: L0 [5] L0 [1]\n");
    assert_eq!(fronts(&story), []);
}
