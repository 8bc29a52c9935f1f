// The table of filters.
import { LIST_FILTERS } from './list-filters.js';
import { NUMBER_FILTERS } from './number-filters.js';
import type { Filter, Run } from './run.js';
import { TEXT_FILTERS } from './text-filters.js';
import { TemplateFault, type Arguments, type Value } from './values.js';

const FILTERS: ReadonlyMap<string, Filter> = new Map(
  Object.entries({ ...LIST_FILTERS, ...NUMBER_FILTERS, ...TEXT_FILTERS }),
);

/** Returns undefined if there is no filter with that name. */
export function filterNamed(name: string): Filter | undefined {
  return FILTERS.get(name);
}

export function callFilter(run: Run, name: string, value: Value, args: Arguments): Value {
  const filter = filterNamed(name);
  if (filter === undefined) throw new TemplateFault(`No filter named '${name}'.`);
  return filter(run, value, args);
}
