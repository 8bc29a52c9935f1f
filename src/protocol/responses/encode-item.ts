// An output item while it is open. An item emits its start event when it is created, and is closed once. Only an open
// item accepts deltas, so no delta can precede the start. The state machine (encode.ts) keeps only one item open at a
// time. No side effects.
import type { EventWriter } from './encode-writer.js';
import type { ItemStatus, OutputItem } from './resource.js';

/** The statuses that a closed item can have. */
export type ClosedStatus = Exclude<ItemStatus, 'in_progress'>;

export abstract class OpenItemBase<Item extends OutputItem> {
  constructor(
    protected readonly out: EventWriter,
    protected readonly index: number,
    readonly id: string,
  ) {}

  /** Returns the item in its current state. */
  abstract item(status: ItemStatus): Item;
  /** Emits the `.done` events for the item's parts. */
  protected abstract finish(status: ClosedStatus): void;

  /** Emits the item's `.done` events. The item accepts nothing afterwards. */
  close(status: ClosedStatus): Item {
    this.finish(status);
    const item = this.item(status);
    this.out.write('response.output_item.done', { output_index: this.index, item });
    return item;
  }

  protected announce(item: object): void {
    this.out.write('response.output_item.added', { output_index: this.index, item });
  }

  /** The common prefix of the item's deltas, serialized once. */
  protected head(place: 'content_index' | 'summary_index' | null): string {
    const start = `"item_id":"${this.id}","output_index":${this.index},`;
    return place === null ? `${start}"delta":` : `${start}"${place}":0,"delta":`;
  }
}
