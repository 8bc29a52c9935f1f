// Builds the catalog entries of LoRA adapters. An adapter is served like a model, under the name MODEL:NAME. It has the
// properties of its model, except for a few settings (OVERRIDABLE).

import { hash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { AdapterFile, ModelAdapter } from '../config/kinds.js';
import { CatalogError, nameProblem } from './catalog.js';
import type { AdapterSource, CatalogModel, CatalogOverride } from './catalog.js';

/** Returns the public name of an adapter, MODEL:NAME. NAME alone also works if no model and no alias has that name. */
export const adapterId = ({ base, name }: Pick<AdapterSource, 'base' | 'name'>): string => `${base}:${name}`;

/**
 * Returns the adapter's name in the engine. By this name, the threads of the process find an adapter that another
 * thread has loaded. For adapters that operators load, the name ends with a hash of path, scale and time, because the
 * same public name can be loaded again with another file, or by two requests concurrently.
 */
export function engineAdapterName(adapter: Omit<AdapterSource, 'setting'>): string {
  const { path, scale, addedAt } = adapter;
  const id = adapterId(adapter);
  if (addedAt === undefined) return id;
  return `${id} ${hash('sha256', JSON.stringify([path, scale, addedAt])).slice(0, 16)}`;
}

/** Returns the public name from a name that engineAdapterName() returned. Public names contain no space. */
export const publicAdapterName = (name: string): string => name.split(' ', 1)[0] as string;

/** Returns an error message if the path is neither a file nor a PEFT folder; otherwise null. */
export function adapterPathProblem(path: string): string | null {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return `${path} does not exist`;
  if (stat.isFile() || (stat.isDirectory() && existsSync(join(path, 'adapter_config.json')))) return null;
  return `${path} is neither a file nor a folder with an adapter_config.json`;
}

/** Returns the catalog entry of an adapter. Throws CatalogError if the public name is invalid. */
export function adapterModel(base: CatalogModel, adapter: AdapterSource): CatalogModel {
  const id = adapterId(adapter);
  const problem = nameProblem(id);
  if (problem !== null) throw new CatalogError(`adapter name "${id}"`, problem);
  const { draft: _draft, vision: _vision, ...rest } = base;
  const stat = statSync(adapter.path, { throwIfNoEntry: false });
  return {
    ...rest,
    id,
    adapter,
    display_name: id,
    created: stat === undefined ? base.created : Math.floor(stat.mtimeMs / 1000),
    lifecycle: 'active',
    deprecated_at: null,
    retires_at: null,
    successor: null,
  };
}

/**
 * Splits MODEL:NAME into the model and the adapter's name. If several splits are possible, the longest model name is
 * used. NAME alone is allowed if there is exactly one local model, and refers to that model. If the text cannot be
 * split, returns an error message.
 */
export function adapterTarget(
  asked: string,
  models: readonly CatalogModel[],
): { base: CatalogModel; name: string } | { problem: string } {
  const local = models.filter(({ upstream, adapter }) => upstream === undefined && adapter === undefined);
  for (let at = asked.lastIndexOf(':'); at > 0; at = asked.lastIndexOf(':', at - 1)) {
    const found = models.find(({ id, adapter }) => id === asked.slice(0, at) && adapter === undefined);
    if (found?.upstream !== undefined) return { problem: `"${found.id}" is an upstream model` };
    if (found !== undefined) return { base: found, name: asked.slice(at + 1) };
  }
  const names = local.map(({ id }) => id).join(', ');
  if (asked.includes(':'))
    return { problem: `"${asked.slice(0, asked.lastIndexOf(':'))}" is not one of ${names || 'the local models'}` };
  const [base, ...others] = local;
  if (base === undefined) return { problem: 'no model is loaded on this server; upstream models have no adapters' };
  if (others.length > 0)
    return { problem: `several models are served; write MODEL:${asked}, where MODEL is one of ${names}` };
  return { base, name: asked };
}

/** Settings that can be overridden per adapter. All other settings are inherited from the model. */
const OVERRIDABLE: readonly string[] = [
  'display_name',
  'max_output_tokens',
  'max_repeats',
  'default_effort',
  'sampling',
  'lifecycle',
  'deprecated_at',
  'retires_at',
  'successor',
] satisfies readonly (keyof CatalogOverride)[];

/**
 * Returns the catalog entries of the adapters in the configuration. `listed`: the adapters of the setting named
 * `setting`. `overrides`: settings by model name or by the public name of an adapter. Throws CatalogError.
 */
export function configuredAdapters(
  models: readonly CatalogModel[],
  listed: readonly AdapterFile[],
  overrides: Readonly<
    Record<string, CatalogOverride & { adapters?: Readonly<Record<string, ModelAdapter>> | undefined }>
  >,
  setting: string,
): CatalogModel[] {
  const adapters = [
    ...listed.map(({ name: asked, path, scale }) => {
      const where = `${setting} ${asked}`;
      const target = adapterTarget(asked, models);
      if ('problem' in target) throw new CatalogError(where, target.problem);
      const { base, name } = target;
      return { base, adapter: { base: base.id, name, path: resolve(path), scale, setting: where } };
    }),
    ...models.flatMap((base) =>
      Object.entries(overrides[base.id]?.adapters ?? {}).map(([name, { path, scale = 1 }]) => {
        const where = `models "${base.id}": adapters.${name}`;
        if (base.upstream !== undefined) throw new CatalogError(where, 'an upstream model has no adapters');
        return { base, adapter: { base: base.id, name, path: resolve(path), scale, setting: where } };
      }),
    ),
  ];
  const names = new Set(models.map(({ id }) => id));
  return adapters.map(({ base, adapter }) => {
    const id = adapterId(adapter);
    if (names.has(id)) throw new CatalogError(adapter.setting, `the name "${id}" is already taken`);
    names.add(id);
    const problem = adapterPathProblem(adapter.path);
    if (problem !== null) throw new CatalogError(adapter.setting, problem);
    const model = adapterModel(base, adapter);
    const { sampling, ...others } = overrides[id] ?? {};
    for (const key of Object.keys(others))
      if (!OVERRIDABLE.includes(key))
        throw new CatalogError(`models "${id}": ${key}`, `an adapter has the ${key} of its model, "${base.id}"`);
    return { ...model, ...others, sampling: { ...model.sampling, ...sampling } } as CatalogModel;
  });
}
