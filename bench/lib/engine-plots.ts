// Plots a result of the engine benchmark. The plots are stored next to the result's JSON file.
import type { EngineResult, PointResult } from './engine-report.js';
import { barChart, lineChart, type Line, type LinePoint } from './svg.js';

const spread = ({ median, min, max }: { median: number; min: number; max: number }, x: number): LinePoint => ({
  x,
  y: median,
  low: min,
  high: max,
});

/** Returns the plots by file name suffix, without empty plots. */
export function plotsOf(result: EngineResult): Map<string, string> {
  const { model, machine, backend, commit, peerName } = result;
  const note = `${model.quantization ?? ''}, ${((model.parameters ?? 0) / 1e9).toFixed(1)} B parameters, ${backend.isa}, ${backend.threads} threads; ${machine.cpu}; ${commit}`;
  const of = (kind: PointResult['kind']): PointResult[] =>
    result.results.filter((point) => point.kind === kind).sort((a, b) => a.size - b.size);
  const both = (kind: PointResult['kind'], name: string): Line[] => {
    const lines: Line[] = [{ name, points: of(kind).map((point) => spread(point, point.size)) }];
    const theirs = of(kind).flatMap((point) => (point.peer === undefined ? [] : [spread(point.peer, point.size)]));
    if (theirs.length > 0) lines.push({ name: `${name}, ${peerName ?? 'peer'}`, points: theirs });
    return lines;
  };
  const plots = new Map<string, string>();
  if (of('batch').length > 1) {
    const pareto = (points: { rate: number; size: number }[]): LinePoint[] =>
      points.map(({ rate, size }) => ({ x: rate / size, y: rate, label: `${size}` }));
    const lines: Line[] = [
      { name: 'Monolith', points: pareto(of('batch').map((point) => ({ rate: point.median, size: point.size }))) },
    ];
    const theirs = of('batch').flatMap((point) =>
      point.peer === undefined ? [] : [{ rate: point.peer.median, size: point.size }],
    );
    if (theirs.length > 0) lines.push({ name: peerName ?? 'peer', points: pareto(theirs) });
    plots.set(
      'pareto',
      lineChart({
        title: 'Decode: speed of each stream and of all streams',
        note,
        x: 'tokens/s per stream (labels: number of streams)',
        y: 'tokens/s, all streams',
        lines,
      }),
    );
  }
  if (of('depth').length > 1)
    plots.set(
      'depth',
      lineChart({
        title: 'Decode of one stream by context depth',
        note,
        x: 'context depth, tokens',
        y: 'tokens/s',
        lines: both('depth', 'decode'),
      }),
    );
  if (of('prefill').length > 1)
    plots.set(
      'prefill',
      lineChart({
        title: 'Prefill by prompt length',
        note,
        x: 'prompt tokens',
        y: 'tokens/s',
        logX: true,
        lines: both('prefill', 'prefill'),
      }),
    );
  if (result.results.length > 0) {
    plots.set(
      'steps',
      barChart({
        title: "Time per operation in a step; solid: the time it would need at the machine's peak",
        note,
        unit: ' %',
        bars: result.results.map((point) => ({
          name: point.name,
          parts: point.operations
            .filter(({ share }) => share >= 0.005)
            .map(({ name, share, ofRoofline }) => ({ name, value: share * 100, dark: ofRoofline })),
        })),
      }),
    );
  }
  return plots;
}
