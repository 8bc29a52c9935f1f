// Shrinks the files of an earlier process when the page store opens with a smaller byte budget. Worker thread only.
//
// First, the least useful records are removed from the index until the remaining ones fit the budget. Then records move
// from the last files into free slots of the first files, so that files become empty or shorter. The caller writes the
// journal between the two stages and again after the second one, because a record may move into the slot of a removed
// record.
import type { Entry, PageIndex } from './page-index.js';
import type { Slab, SlabFiles, Slot } from './slab-files.js';

/**
 * Removes entries until the remaining entries fit into `maxBytes`. Entries of pinned prompts are removed last. Returns
 * the number of removed entries.
 */
export function evictToFit(index: PageIndex, maxBytes: number): number {
  let bytes = 0;
  for (const { slot } of index.entries) bytes += slot.slab.slotBytes;
  if (bytes <= maxBytes) return 0;
  const before = index.size;
  const rank = (entry: Entry): number => (index.isPinned(entry) ? 1 : 0);
  const byUse = index.entries
    .map((entry) => ({ entry, rank: rank(entry) }))
    .sort((a, b) => a.rank - b.rank || a.entry.priority - b.entry.priority || b.entry.page - a.entry.page);
  for (const { entry } of byUse) {
    if (bytes <= maxBytes) break;
    if (index.get(entry.name) !== entry) continue;
    // Pages cannot be found without their parent, so the descendants of a removed page are removed too.
    for (const gone of index.withDescendants([entry])) {
      bytes -= gone.slot.slab.slotBytes;
      index.forget(gone);
    }
  }
  return before - index.size;
}

/**
 * Compacts each size class by moving its records into the lowest-numbered files. Resolves when the copies are durable.
 */
export async function compact(index: PageIndex, slabs: SlabFiles): Promise<void> {
  const sizes = new Map<number, Slab[]>();
  for (const slab of slabs.all()) sizes.set(slab.slotBytes, [...(sizes.get(slab.slotBytes) ?? []), slab]);
  const moved: Slot[] = [];
  for (const own of sizes.values()) {
    own.sort((a, b) => a.number - b.number);
    const order = new Map(own.map((slab, at) => [slab, at]));
    const entries = index.entries
      .filter(({ slot }) => order.has(slot.slab))
      .sort((a, b) => order.get(a.slot.slab)! - order.get(b.slot.slab)! || a.slot.index - b.slot.index);
    const free = freeSlots(own);
    let target = free.next();
    for (const entry of entries.reverse()) {
      if (target.done === true) break;
      const { slab, index: at } = target.value;
      const isEarlier =
        order.get(slab)! < order.get(entry.slot.slab)! || (slab === entry.slot.slab && at < entry.slot.index);
      if (!isEarlier) break;
      const record = Buffer.allocUnsafe(entry.slot.slab.slotBytes);
      if ((await slabs.read(entry.slot, record)) < record.length) continue; // PageStore drops it when reading it
      slab.used.add(at);
      await slabs.write(target.value, record);
      moved.push(target.value);
      index.move(entry, target.value);
      target = free.next();
    }
  }
  await slabs.sync(moved);
}

/** Yields the slots that are free at the time of the call, in ascending order. */
function* freeSlots(slabs: readonly Slab[]): Generator<Slot> {
  for (const slab of slabs) {
    const used = new Set(slab.used);
    for (let index = 0; index < slab.slots; index++) if (!used.has(index)) yield { slab, index };
  }
}
