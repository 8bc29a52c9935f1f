// The controls above a request list: time range, search, filters, live updates and download.
import { useState } from 'react';
import type { ReactNode } from 'react';
import { REQUEST_OUTCOMES } from '../../../../shared/wire/requests.js';
import { API, withQuery } from '../api.js';
import { Button, PlainLinkButton } from '../components/button.js';
import { Select, TextField } from '../components/field.js';
import { Icon } from '../components/icon.js';
import { Segmented } from '../components/tabs.js';
import { isRange, RANGES } from './request-filter.js';
import type { RequestRange, RequestView } from './request-filter.js';
import '../styles/requests.css';

export interface Choice {
  value: string;
  label: string;
}

/** `extra`: filters that are specific to the calling page. */
export function RequestFilters({
  view,
  keys,
  models,
  extra,
}: {
  view: RequestView;
  keys: readonly Choice[] | null;
  models: readonly string[];
  extra?: ReactNode;
}): ReactNode {
  const { filter, set } = view;
  const range: RequestRange = isRange(filter.range) ? filter.range : '';
  return (
    <div className="request-controls">
      <div className="toolbar">
        <Segmented<RequestRange>
          label="Time range"
          value={range}
          onChange={(next) => set(next === 'custom' ? { range: next } : { range: next, from: '', to: '' })}
          options={RANGES.map(({ value, label }) => ({ value, label }))}
        />
        <RequestSearch key={filter.request_id} view={view} />
      </div>
      {range === 'custom' && (
        <div className="request-times">
          <TextField
            type="datetime-local"
            label="From"
            value={filter.from}
            error={filter.from !== '' && filter.to !== '' && filter.from >= filter.to ? 'Must be before the end' : null}
            onChange={(event) => set({ from: event.target.value })}
          />
          <TextField
            type="datetime-local"
            label="To"
            value={filter.to}
            onChange={(event) => set({ to: event.target.value })}
          />
        </div>
      )}
      <div className="request-filters">
        {extra}
        {keys !== null && (
          <Select
            label="API key"
            hideLabel
            value={filter.api_key}
            onChange={(event) => set({ api_key: event.target.value })}
            options={[{ value: '', label: 'All keys' }, ...keys]}
          />
        )}
        <Select
          label="Model"
          hideLabel
          value={filter.model}
          onChange={(event) => set({ model: event.target.value })}
          options={[{ value: '', label: 'All models' }, ...models.map((name) => ({ value: name, label: name }))]}
        />
        <Select
          label="Outcome"
          hideLabel
          value={filter.outcome}
          onChange={(event) => set({ outcome: event.target.value })}
          options={[
            { value: '', label: 'All outcomes' },
            ...REQUEST_OUTCOMES.map((name) => ({ value: name, label: name })),
          ]}
        />
        {view.isFiltered && (
          <Button size="small" variant="ghost" onClick={view.clear}>
            Clear filters
          </Button>
        )}
      </div>
    </div>
  );
}

const REQUEST_ID = /^req_[0-9A-Za-z]{1,64}$/;
/** Whether the filters can be sent to the server. */
export const isSearchable = ({ filter: { request_id: id, from, to } }: RequestView): boolean =>
  (id.trim() === '' || REQUEST_ID.test(id.trim())) && (from === '' || to === '' || from < to);

/** Searches when the text is a complete request ID or is cleared, and on Enter. */
function RequestSearch({ view: { filter, set } }: { view: RequestView }): ReactNode {
  const [text, setText] = useState(filter.request_id);
  const apply = (value: string): void => {
    if (value.trim() !== filter.request_id) set({ request_id: value.trim() });
  };
  return (
    <form
      className="request-search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        apply(text);
      }}
    >
      <TextField
        type="search"
        label="Request ID"
        hideLabel
        placeholder="Request ID: req_…"
        spellCheck={false}
        autoComplete="off"
        value={text}
        error={filter.request_id !== '' && !REQUEST_ID.test(filter.request_id) ? 'Request IDs start with req_' : null}
        onChange={(event) => {
          setText(event.target.value);
          if (event.target.value.trim() === '' || /^req_[0-9A-Za-z]{24}$/.test(event.target.value.trim()))
            apply(event.target.value);
        }}
      />
    </form>
  );
}

/**
 * The buttons for live updates, reload and download. `path`: path of the list, relative to the API. `fixed`: query
 * parameters that are not filters of the page.
 */
export function RequestActions({
  view,
  path,
  fixed = {},
  onRefresh,
}: {
  view: RequestView;
  path: string;
  fixed?: Readonly<Record<string, string>>;
  onRefresh: () => void;
}): ReactNode {
  return (
    <>
      <Button
        size="small"
        aria-pressed={view.live}
        className={view.live ? 'live-on' : ''}
        onClick={() => view.setLive(!view.live)}
      >
        <span className="live-dot" aria-hidden="true" /> Live
      </Button>
      {!view.live && (
        <Button size="small" onClick={onRefresh}>
          <Icon name="refresh" /> Refresh
        </Button>
      )}
      <PlainLinkButton
        size="small"
        href={`${API}${withQuery(`${path}.csv`, { ...(isSearchable(view) ? view.query() : {}), ...fixed })}`}
        download="requests.csv"
      >
        <Icon name="download" /> CSV
      </PlainLinkButton>
    </>
  );
}
