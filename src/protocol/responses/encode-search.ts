// The output item of a web search that the server runs. No side effects.
import type { SearchOutcome } from '../../generation/web-search/outcome.js';
import { newItemId } from '../../shared/ids.js';
import { OpenItemBase, type ClosedStatus } from './encode-item.js';
import type { EventWriter } from './encode-writer.js';
import type { ItemStatus, WebSearchItem } from './resource.js';

/** Fields that a search item contains besides the query, as requested with `include`. */
export interface SearchForm {
  sources: boolean;
  results: boolean;
}

export class OpenSearch extends OpenItemBase<WebSearchItem> {
  /** Null while the search is running. */
  outcome: SearchOutcome | null = null;

  constructor(
    out: EventWriter,
    index: number,
    private readonly query: string,
    private readonly form: SearchForm,
  ) {
    super(out, index, newItemId('ws'));
    this.announce(this.item('in_progress'));
    this.#write('in_progress');
    this.#write('searching');
  }

  /** A search that is unfinished when the response ends counts as failed. */
  item(status: ItemStatus): WebSearchItem {
    const results = this.outcome !== null && 'results' in this.outcome ? this.outcome.results : null;
    const sources = results?.map(({ url }) => ({ type: 'url' as const, url }));
    return {
      id: this.id,
      type: 'web_search_call',
      status: status === 'in_progress' ? status : results === null ? 'failed' : 'completed',
      action: {
        type: 'search',
        query: this.query,
        queries: [this.query],
        ...(this.form.sources && sources !== undefined ? { sources } : {}),
      },
      ...(this.form.results && results !== null
        ? { results: results.map(({ title, url, content }) => ({ title, url, text: content })) }
        : {}),
    };
  }

  protected finish(_status: ClosedStatus): void {
    if (this.outcome !== null && 'results' in this.outcome) this.#write('completed');
  }

  #write(state: 'in_progress' | 'searching' | 'completed'): void {
    this.out.write(`response.web_search_call.${state}`, { output_index: this.index, item_id: this.id });
  }
}
