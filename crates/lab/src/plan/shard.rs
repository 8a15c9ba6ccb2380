//! Distribution of cells to shards by estimated cost.

use std::collections::BTreeSet;

use super::Plan;
use crate::cell::{Cell, CellId};

/// Deals the cells, the most costly first, each to the shard with the least cost so far. All
/// repetitions of a cell stay together, so that the rule that ends them needs no other shard.
pub(super) fn of(plan: &Plan, index: u32, count: u32) -> Vec<&Cell> {
    let mut cells: Vec<(u64, CellId)> =
        plan.distinct().map(|cell| (plan.cost(cell).micros, cell.id)).collect();
    cells.sort_by(|one, two| two.0.cmp(&one.0).then(one.1.cmp(&two.1)));
    let mut loads = vec![0_u64; count as usize];
    let mut mine = BTreeSet::new();
    for (cost, id) in cells {
        let least = loads.iter().enumerate().min_by_key(|(shard, load)| (**load, *shard));
        let Some((shard, _)) = least else { break };
        // A cell without cost counts too, so that such cells are dealt evenly.
        loads[shard] = loads[shard].saturating_add(cost.max(1));
        if shard == index as usize {
            mine.insert(id);
        }
    }
    plan.distinct().filter(|cell| mine.contains(&cell.id)).collect()
}
