// The table of filters.
import { LIST_FILTERS } from './list-filters.js';
import { NUMBER_FILTERS } from './number-filters.js';
import type { Run } from './run.js';
import { TEXT_FILTERS } from './text-filters.js';
import { TemplateFault, type Arguments, type Value } from './values.js';

/** Throws TemplateFault. */
export type Filter = (run: Run, value: Value, args: Arguments) => Value;

let table: ReadonlyMap<string, Filter> | null = null; // filled at the first use, because filters may call filters

/** Returns undefined if there is no filter of that name. */
export function filterNamed(name: string): Filter | undefined {
  table ??= new Map(Object.entries({ ...LIST_FILTERS, ...NUMBER_FILTERS, ...TEXT_FILTERS }));
  return table.get(name);
}

export function callFilter(run: Run, name: string, value: Value, args: Arguments): Value {
  const filter = filterNamed(name);
  if (filter === undefined) throw new TemplateFault(`No filter named '${name}'.`);
  return filter(run, value, args);
}
