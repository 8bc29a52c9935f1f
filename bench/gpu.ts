// Runs the CUDA benchmark on this machine's GPU. scripts/gpu.sh builds the backend, runs its tests and measures. This
// module turns the measurements into a table and a result file.
//
//   npm run bench -- gpu [--results FOLDER]
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { packageRoot } from '../src/engine/load-addon.js';
import { commit, machine } from './lib/machine.js';

const USAGE = `npm run bench -- gpu [options]

  --json FILE        print and store a result file of gpu_bench from another machine instead of measuring
  --results FOLDER   folder for the result (default: bench/results), in a subfolder named after the GPU
  --tflops N         ceiling of 16-bit matmuls in TFLOP/s (default: the best matmul measured)
  --filter WORD      only kernels and models whose name contains WORD

Needs nvcc, cmake and an NVIDIA GPU (Ampere or newer). Takes up to ten minutes.
`;

export interface GpuFigures {
  device: { name: string; capability: string; driver: string };
  tiny: boolean;
  copyGBs: number;
  uploadGBs: number;
  ceilingTflops: number;
  ceilingIs: string;
  kernels: { family: string; name: string; rows: number; us: number; gbs: number; tflops: number; share: number }[];
  models: {
    model: string;
    phase: string;
    streams: number;
    recording: boolean;
    invariant: boolean;
    earlyLaunch: boolean;
    tokensPerSecond: number;
    stepMs: number;
    hostUs: number;
    weightsShare: number;
  }[];
  leftOut: string[];
  failure: string | null;
}

export function gpuBenchCommand(args: string[]): void {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: { json: text, results: text, tflops: text, filter: text, help: { type: 'boolean' } },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const out = mkdtempSync(join(tmpdir(), 'monolith-gpu-'));
  try {
    if (values.json === undefined) {
      const options = [
        ...(values.tflops === undefined ? [] : ['--tflops', values.tflops]),
        ...(values.filter === undefined ? [] : ['--filter', values.filter]),
      ];
      const { status } = spawnSync(join(packageRoot, 'scripts', 'gpu.sh'), ['--', ...options], {
        stdio: ['ignore', 2, 2],
        env: { ...process.env, MONOLITH_OUT: out },
      });
      if (status !== 0) process.exitCode = 1;
    }
    const figures = read(values.json ?? join(out, 'gpu.json'));
    if (figures === null) {
      process.exitCode = 1;
      return;
    }
    process.stdout.write(gpuTable(figures));
    const folder = join(values.results ?? join(packageRoot, 'bench', 'results'), folderOf(figures.device.name));
    mkdirSync(folder, { recursive: true });
    const file = join(folder, 'gpu.json');
    const from = values.json === undefined ? { machine: machine(), commit: commit() } : {};
    writeFileSync(
      file,
      `${JSON.stringify({ bench: 'gpu', at: new Date().toISOString(), ...from, ...figures }, null, 1)}\n`,
    );
    process.stdout.write(`\n${file}\n`);
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

function read(path: string): GpuFigures | null {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as GpuFigures;
  } catch {
    return null; // gpu.sh has already printed the reason
  }
}

const folderOf = (gpu: string): string =>
  gpu
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');

/** Formats the measurements as text: kernels first, then whole steps. */
export function gpuTable(figures: GpuFigures): string {
  const lines = [
    `${figures.device.name}, compute capability ${figures.device.capability}, driver ${figures.device.driver}: copies ${figures.copyGBs.toFixed(0)} GB/s, ` +
      `uploads ${figures.uploadGBs.toFixed(1)} GB/s, 16-bit ceiling ${figures.ceilingTflops.toFixed(0)} TFLOP/s (${figures.ceilingIs})`,
    '',
    `${'kernel'.padEnd(36)}${'rows'.padStart(7)}${'us'.padStart(11)}${'GB/s'.padStart(8)}${'Tops/s'.padStart(9)}${'of the roofline'.padStart(17)}`,
    ...figures.kernels.map(
      (k) =>
        `${`${k.family} ${k.name}`.padEnd(36)}${String(k.rows).padStart(7)}${k.us.toFixed(1).padStart(11)}` +
        `${k.gbs.toFixed(0).padStart(8)}${k.tflops.toFixed(1).padStart(9)}${`${(k.share * 100).toFixed(0)} %`.padStart(17)}`,
    ),
    '',
    `${'model'.padEnd(36)}${'streams'.padStart(7)}${'tokens/s'.padStart(11)}${'ms a step'.padStart(11)}${'host us'.padStart(9)}${'weights at'.padStart(12)}`,
    ...figures.models.map(
      (m) =>
        `${`${m.model} ${m.phase}${m.recording ? '' : ', not recorded'}${m.invariant ? '' : ', not invariant'}${m.earlyLaunch ? '' : ', no early launch'}`.padEnd(36)}` +
        `${String(m.streams).padStart(7)}${m.tokensPerSecond.toFixed(0).padStart(11)}${m.stepMs.toFixed(3).padStart(11)}${m.hostUs.toFixed(0).padStart(9)}` +
        (m.phase === 'decode' ? `${(m.weightsShare * 100).toFixed(0)} % of copies`.padStart(19) : ''),
    ),
    ...figures.leftOut.map((what) => `not measured: ${what}`),
    ...(figures.failure === null ? [] : [`failed: ${figures.failure}`]),
  ];
  return `${lines.join('\n')}\n`;
}
