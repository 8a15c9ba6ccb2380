//! Distribution of cells to shards by estimated cost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Plan;
use crate::cell::{Cell, CellId};

/// Deals the cells, the most costly first, each to the shard with the least cost so far (Graham's
/// longest-processing-time rule). All repetitions of a cell stay together, so that the rule that
/// ends them needs no other shard. Returns the cells of each shard in the order of the plan.
pub(super) fn deal(plan: &Plan, count: u32) -> Vec<Vec<&Cell>> {
    let mut cells: Vec<(Reverse<u64>, CellId)> =
        plan.distinct().map(|cell| (Reverse(plan.cost(cell).micros), cell.id)).collect();
    cells.sort_unstable();
    let mut loads: BinaryHeap<Reverse<(u64, u32)>> = (0..count).map(|shard| Reverse((0, shard))).collect();
    let mut shard_of = BTreeMap::new();
    for (Reverse(cost), id) in cells {
        let Some(mut least) = loads.peek_mut() else { break };
        let Reverse((load, shard)) = *least;
        shard_of.insert(id, shard);
        // A cell without cost counts too, so that such cells are dealt evenly.
        *least = Reverse((load.saturating_add(cost.max(1)), shard));
    }
    let mut shards = vec![Vec::new(); count as usize];
    for cell in plan.distinct() {
        if let Some(shard) = shard_of.get(&cell.id) {
            shards[*shard as usize].push(cell);
        }
    }
    shards
}
