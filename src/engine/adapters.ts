// LoRA adapters as models of the catalog: an adapter is served under a name of its own, with the properties of the model
// to which it applies.

import { hash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { AdapterFile, ModelAdapter } from '../config/kinds.js';
import { CatalogError, nameProblem } from './catalog.js';
import type { AdapterSource, CatalogModel, CatalogOverride } from './catalog.js';

/** The name under which an adapter is served. Its own name also works if no model or alias has it. */
export const adapterId = ({ base, name }: Pick<AdapterSource, 'base' | 'name'>): string => `${base}:${name}`;

/**
 * The name of an adapter in an engine, by which the threads of the process find each other's copies. For an adapter that
 * an operator has loaded, it ends with a hash of what was loaded, because a name may be loaded again with another file,
 * or by two requests concurrently.
 */
export function engineAdapterName(adapter: Omit<AdapterSource, 'setting'>): string {
  const { path, scale, addedAt } = adapter;
  const id = adapterId(adapter);
  if (addedAt === undefined) return id;
  return `${id} ${hash('sha256', JSON.stringify([path, scale, addedAt])).slice(0, 16)}`;
}

/** The public name in a name of engineAdapterName(). Public names contain no space. */
export const publicAdapterName = (name: string): string => name.split(' ', 1)[0] as string;

/** Why a path cannot hold an adapter; null if it is a file or a PEFT folder. */
export function adapterPathProblem(path: string): string | null {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return `${path} does not exist`;
  if (stat.isFile() || (stat.isDirectory() && existsSync(join(path, 'adapter_config.json')))) return null;
  return `${path} is neither a file nor a folder with an adapter_config.json`;
}

/** The catalog entry of an adapter. Throws CatalogError if the name is too long. */
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
 * Splits MODEL:NAME at the colon that gives the longest name of a model. Without a colon, the model is the only local
 * one. Returns the reason if there is no such model.
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

/** The settings of an adapter that an operator may override; all others are those of its model. */
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
 * The adapters that the configuration declares for these models. `overrides`: settings per model, which may include
 * adapters under the names under which they are served. Throws CatalogError.
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
