// The checks of `monolith doctor`. Each check covers one thing, leaves no files behind, and returns advice if it finds
// a problem.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { showBytes } from '../config/kinds.js';
import type { Config } from '../config/settings.js';
import { cudaProblem } from '../engine/cuda-probe.js';
import { FileFacts, fitOf } from '../engine/file-facts.js';
import { isDeprecatedNode } from '../shared/deprecated-node.js';
import { loadAddon, packageRoot } from '../engine/load-addon.js';
import { availableMemory, totalMemory } from '../engine/machine-memory.js';
import { addressProblems } from '../http/listen-problem.js';
import { withHubModels } from '../hub/hub.js';
import { HUB_SCHEME } from '../hub/model-ref.js';
import { configuredModels, loadOptions } from '../server/engine-settings.js';
import { serverStatus } from './server-status.js';

export interface Finding {
  readonly check: string;
  readonly result: 'ok' | 'warn' | 'fail';
  readonly message: string;
  /** Advice for the user; null if no action is needed. */
  readonly advice: string | null;
}

type Check = (config: Config) => Finding[] | Promise<Finding[]>;

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const HUB_MS = 3_000;

const ok = (check: string, message: string): Finding => ({ check, result: 'ok', message, advice: null });
const warn = (check: string, message: string, advice: string): Finding => ({ check, result: 'warn', message, advice });
const fail = (check: string, message: string, advice: string): Finding => ({ check, result: 'fail', message, advice });

/** Runs all checks. A check that throws counts as failed. */
export async function examine(config: Config): Promise<Finding[]> {
  const found: Finding[] = [];
  for (const [name, check] of Object.entries(CHECKS)) {
    try {
      found.push(...(await check(config)));
    } catch (error) {
      found.push(fail(name, (error as Error).message, 'Report this with the output of "monolith version".'));
    }
  }
  return found;
}

const CHECKS: Readonly<Record<string, Check>> = {
  node: checkNode,
  engine: checkEngine,
  tools: checkTools,
  memory: checkMemory,
  models: checkModels,
  gpu: checkGpu,
  disk: checkDisk,
  folders: checkFolders,
  ports: checkPorts,
  hub: checkHub,
};

function checkNode(): Finding[] {
  const { engines } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as {
    engines?: { node?: string };
  };
  const range = engines?.node ?? '';
  const version = process.versions.node;
  if (isInRange(version, range))
    return [
      isDeprecatedNode(version)
        ? warn(
            'node',
            `${version} is deprecated`,
            'Install Node.js 22 or 24: the next version will not support Node.js 20.',
          )
        : ok('node', version),
    ];
  return [fail('node', `${version} is not supported`, `Install a Node.js version in the range ${range}.`)];
}

/** `range`: comparisons separated by spaces, all of which must hold, such as `>=20.17 <26`. */
export function isInRange(version: string, range: string): boolean {
  return range.split(/\s+/).every((part) => {
    const [, sign, bound = ''] = /^(>=|<)(.+)$/.exec(part) ?? [];
    const order = compare(version, bound);
    return sign === '<' ? order < 0 : order >= 0;
  });
}

function compare(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split('.').map(Number));
  for (let at = 0; at < 3; at++) {
    const difference = (left?.[at] ?? 0) - (right?.[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function checkEngine(): Finding[] {
  try {
    const { version, isas } = loadAddon();
    return [ok('engine', `${version}; the CPU supports ${isas.join(', ')}`)];
  } catch (error) {
    return [fail('engine', (error as Error).message, 'Build or install the engine as the message says.')];
  }
}

/** The engine is built on this machine only in a checkout. */
function checkTools(): Finding[] {
  if (!existsSync(join(packageRoot, 'native'))) return [];
  const has = (program: string): boolean => spawnSync(program, ['--version'], { timeout: 10_000 }).status === 0;
  const missing = [...(has('cmake') ? [] : ['cmake']), ...(has('g++') || has('clang++') ? [] : ['g++'])];
  if (missing.length === 0)
    return [ok('tools', `cmake and a C++ compiler${has('ninja') ? ', ninja' : '; ninja-build would speed up builds'}`)];
  const advice = `Install them, for example: apt-get install ${missing.join(' ')}`;
  return [warn('tools', `missing for building the engine: ${missing.join(', ')}`, advice)];
}

function checkMemory(): Finding[] {
  const [total, available] = [totalMemory(), availableMemory()];
  const message = `${showBytes(available)} available of ${showBytes(total)}`;
  if (available >= GIB) return [ok('memory', message)];
  return [warn('memory', message, 'Stop other programs, or raise the memory limit of the container or service.')];
}

async function checkModels(asked: Config): Promise<Finding[]> {
  const config = await withHubModels(asked, { fetches: false });
  const memory = { total: totalMemory(), available: availableMemory() };
  const facts = new FileFacts(loadOptions(config));
  const absent = config.model.filter(({ path }) => path.startsWith(HUB_SCHEME));
  const rest = { ...config, model: config.model.filter((one) => !absent.includes(one)) };
  const there = absent.length > 0 && rest.model.length === 0 ? [] : configuredModels(rest);
  const found = await Promise.all(
    there.map(async ({ id, file, upstream }) => {
      const check = `model ${id}`;
      if (upstream !== undefined) return ok(check, 'runs on an upstream server');
      const fact = await facts.of(file);
      if (fact.problem !== null || fact.memory === null)
        return fail(
          check,
          `${file}: ${fact.problem ?? 'no memory plan'}`,
          'Download the file again, or serve another model.',
        );
      const needs = `needs up to ${showBytes(fact.memory)}`;
      if (fitOf(fact, memory) === 'yes') return ok(check, needs);
      const advice = 'Choose a smaller quantization or model, or set --max-context or --kv-bytes.';
      return fitOf(fact, memory) === 'later'
        ? warn(check, `${needs}; ${showBytes(memory.available)} are available now`, `Free memory. ${advice}`)
        : fail(check, `${needs}; the machine has ${showBytes(memory.total)}`, advice);
    }),
  );
  const downloads = absent.map(({ name, path }) => ok(`model ${name}`, `the next start downloads ${path}`));
  return [...found, ...downloads];
}

async function checkGpu(config: Config): Promise<Finding[]> {
  const wantsGpu = config.engine.device.startsWith('cuda');
  const hasDriver = existsSync('/proc/driver/nvidia/version') || existsSync('/dev/nvidiactl');
  if (!wantsGpu && !hasDriver) return [ok('gpu', 'none found; models run on the CPU')];
  const problem = await cudaProblem(loadOptions(config));
  if (problem === null) {
    if (wantsGpu || config.engine.device === 'auto') return [ok('gpu', `used (--device ${config.engine.device})`)];
    return [warn('gpu', 'available, but models run on the CPU', 'To use it, set --device auto or --device cuda.')];
  }
  const advice = hasDriver
    ? 'To build with CUDA, see docs/internals/gpu.md.'
    : 'Install the NVIDIA driver, or set --device cpu.';
  return [(wantsGpu ? fail : warn)('gpu', problem, advice)];
}

function checkDisk({ data_dir: data, hub, log_file_bytes: log }: Config): Finding[] {
  const places = [
    { check: 'disk data', path: data, least: 256 * MIB + log, flag: '--data-dir' },
    { check: 'disk models', path: hub.cache, least: 5 * GIB, flag: '--hub-cache' },
  ];
  return places.map(({ check, path, least, flag }) => {
    const at = existing(path);
    const { bavail, bsize } = statfsSync(at);
    const message = `${showBytes(bavail * bsize)} free in ${at}`;
    if (bavail * bsize >= least) return ok(check, message);
    return warn(check, message, `Free some space, or use another directory with ${flag}.`);
  });
}

/** Returns the path or its closest existing parent. */
function existing(path: string): string {
  for (let at = path; ; at = dirname(at)) if (existsSync(at) || at === dirname(at)) return at;
}

function checkFolders({ data_dir: data, hub }: Config): Finding[] {
  return [folder('data directory', data, '--data-dir', true), folder('model cache', hub.cache, '--hub-cache', false)];
}

function folder(check: string, path: string, flag: string, isPrivate: boolean): Finding {
  const at = existing(path);
  const user = `user ${process.getuid?.() ?? '?'}`;
  if (!statSync(at).isDirectory()) return fail(check, `${at} is not a directory`, `Use another one with ${flag}.`);
  // Tests access by creating a directory, because permission bits do not show whether a file system is read-only or,
  // like /proc, refuses new directories.
  try {
    rmdirSync(mkdtempSync(join(at, '.monolith-doctor-')));
  } catch (error) {
    const advice = `Change its owner (chown) or the file system, or use another directory with ${flag}.`;
    const reason = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
    return fail(check, `${user} cannot write to ${at} (${reason})`, advice);
  }
  if (at !== path) return ok(check, `${path} will be created`);
  const mode = statSync(path).mode & 0o777;
  if (isPrivate && (mode & 0o077) !== 0)
    return warn(
      check,
      `other users can read ${path} (mode ${mode.toString(8)})`,
      `It contains keys. Run: chmod 700 ${path}`,
    );
  return ok(check, path);
}

async function checkPorts(config: Config): Promise<Finding[]> {
  const status = await serverStatus(config.data_dir);
  if (status !== null) return [ok('ports', `a server runs at ${status.url} (process ${status.pid})`)];
  const problems = await addressProblems(config);
  if (problems.length === 0) return [ok('ports', `${config.host} port ${config.port} is free`)];
  return problems.map((problem) => {
    const [message = '', ...advice] = problem.split(/(?<=\.) (?=Choose)/);
    return fail('ports', message.replace(/\.$/, ''), advice.join(' '));
  });
}

async function checkHub({ hub }: Config): Promise<Finding[]> {
  if (hub.offline) return [ok('hub', 'not contacted (--hub-offline)')];
  const { host } = new URL(hub.endpoint);
  try {
    await fetch(hub.endpoint, { method: 'HEAD', redirect: 'manual', signal: AbortSignal.timeout(HUB_MS) });
    return [ok('hub', `${host} is reachable`)];
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : (error as Error);
    const reason = (cause as NodeJS.ErrnoException).code ?? cause.message;
    const advice =
      'Models cannot be downloaded. Check the network and --hub-endpoint, or set --hub-offline and serve files.';
    return [warn('hub', `${host} cannot be reached: ${reason}`, advice)];
  }
}
