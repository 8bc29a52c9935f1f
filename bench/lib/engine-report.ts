// The results of the engine benchmark: the content of its JSON file, derived values, and a table.
import type { LoadOptions, ModelInfo } from '../../src/engine/addon-types.js';
import type { StepCosts } from './engine-points.js';
import type { Machine } from './machine.js';
import type { Spread } from './statistics.js';

export interface OpShare {
  name: string;
  /** Share of the step time. */
  share: number;
  /**
   * The time that the operation would take at the machine's peak (for memory or arithmetic, whichever takes longer) as
   * a share of the measured time; 0 if unknown.
   */
  ofRoofline: number;
  bound: 'memory' | 'arithmetic' | 'none';
}

export interface PointResult extends Spread {
  name: string;
  unit: 'tokens/s';
  kind: 'prefill' | 'batch' | 'depth';
  size: number;
  costs: StepCosts;
  operations: OpShare[];
  /** For single-stream decode: bytes of weights, keys and values read per token. */
  bytesPerToken?: number;
  gigabytesPerSecond?: number;
  /** For each run, its share of the bandwidth that the read loop reached just before and just after it. */
  ofReadBandwidth?: Spread;
  /** Number of runs that other processes disturbed on every attempt. */
  disturbed: number;
  peer?: Spread;
  /** This engine's rate divided by the peer's, for each pair of runs. */
  ratio?: Spread;
}

export interface EngineResult {
  bench: 'engine';
  version: string;
  commit: string;
  at: string;
  machine: Machine;
  model: Partial<ModelInfo> & { fileHash: string; fileBytes: number };
  backend: { name: string; isa: string; threads: number };
  load: LoadOptions;
  tokens: number;
  peerName: string | null;
  readBandwidth: Spread & { unit: 'GB/s' };
  peak: { unit: '10^9 operations/s'; integer8: Spread; float32: Spread };
  results: PointResult[];
}

/** The machine's limits, measured between the points, in operations and bytes per second. */
export interface Rooflines {
  bytes: number;
  integer8: number;
  float32: number;
}

const QUANTIZED = /^(Q\d|IQ\d)/;

export function sharesOf(costs: StepCosts, quantization: string, rooflines: Rooflines): OpShare[] {
  const total = costs.seconds * 1e9;
  const shares = costs.operations.map(({ name, nanoseconds, bytes, operations }): OpShare => {
    const integer = /^(matmul|mixture)/.test(name) && QUANTIZED.test(quantization);
    const memory = (bytes / rooflines.bytes) * 1e9;
    const peak = integer ? rooflines.integer8 : rooflines.float32;
    const arithmetic = peak > 0 ? (operations / peak) * 1e9 : 0;
    const least = Math.max(memory, arithmetic);
    return {
      name,
      share: nanoseconds / total,
      ofRoofline: least / nanoseconds,
      bound: least === 0 ? 'none' : memory > arithmetic ? 'memory' : 'arithmetic',
    };
  });
  shares.sort((a, b) => b.share - a.share);
  shares.push({
    name: 'outside the forward pass',
    share: Math.max(0, 1 - shares.reduce((sum, { share }) => sum + share, 0)),
    ofRoofline: 0,
    bound: 'none',
  });
  return shares;
}

const percent = (share: number): string => `${(share * 100).toFixed(0)} %`;

export function table(result: EngineResult): string {
  const read = result.readBandwidth;
  const cells = ({ median, min, max }: Spread): string =>
    [median, min, max].map((value) => value.toFixed(1).padStart(10)).join('');
  const lines = [`${'point'.padEnd(20)}${'median'.padStart(10)}${'min'.padStart(10)}${'max'.padStart(10)}  tokens/s`];
  for (const point of result.results) {
    const bandwidth =
      point.ofReadBandwidth === undefined
        ? ''
        : `  ${point.gigabytesPerSecond!.toFixed(1)} GB/s, ${percent(point.ofReadBandwidth.median)} of the read loop`;
    const peer =
      point.peer === undefined || point.ratio === undefined
        ? ''
        : `  peer ${point.peer.median.toFixed(1)}, ${point.ratio.median.toFixed(2)} times (${point.ratio.min.toFixed(2)} to ${point.ratio.max.toFixed(2)})`;
    const disturbed = point.disturbed === 0 ? '' : `  (${point.disturbed} of ${point.runs.length} disturbed)`;
    lines.push(`${point.name.padEnd(20)}${cells(point)}${bandwidth}${peer}${disturbed}`);
    for (const { name, share, ofRoofline, bound } of point.operations) {
      if (share < 0.005) continue;
      lines.push(
        `  ${name.padEnd(30)}${percent(share).padStart(6)} of the step${bound === 'none' ? '' : `, at ${percent(ofRoofline)} of the ${bound} limit`}`,
      );
    }
  }
  lines.push(`${'read loop'.padEnd(20)}${cells(read)}  GB/s, ${result.backend.threads} threads`);
  lines.push(`${'int8 multiply-add'.padEnd(20)}${cells(result.peak.integer8)}  10^9 operations/s`);
  lines.push(`${'f32 multiply-add'.padEnd(20)}${cells(result.peak.float32)}  10^9 operations/s`);
  return lines.join('\n');
}
