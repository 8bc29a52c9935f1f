// Shows how much of this machine's memory a model would use, by purpose.
import type { ReactNode } from 'react';
import type { DiskModel, DiskState } from '../../../../shared/wire/models.js';
import { Notice } from '../components/states.js';
import { bytes } from '../format.js';

const PARTS = [
  { name: 'weights', label: 'Weights' },
  { name: 'kv', label: 'KV cache' },
  { name: 'states', label: 'Recurrent states' },
  { name: 'activations', label: 'Activations' },
] as const;

export function MemoryPlan({
  model: { memory_plan: plan, memory_bytes: needed, fits },
  disk,
}: {
  model: DiskModel;
  disk: Pick<DiskState, 'memory_bytes' | 'available_memory_bytes'>;
}): ReactNode {
  if (plan === null || needed === null) return null;
  const parts = PARTS.filter(({ name }) => plan[name] > 0);
  const share = (part: number): string => `${Math.min(100, (part / disk.memory_bytes) * 100)}%`;
  return (
    <figure className="memory-plan" aria-label="Memory plan">
      <div className="memory-bar" aria-hidden="true">
        {parts.map(({ name }, at) => (
          <span key={name} style={{ width: share(plan[name]), background: `var(--series-${at})` }} />
        ))}
      </div>
      <dl>
        {parts.map(({ name, label }, at) => (
          <div key={name}>
            <dt>
              <span className="chart-swatch" style={{ background: `var(--series-${at})` }} />
              {label}
            </dt>
            <dd>{bytes(plan[name])}</dd>
          </div>
        ))}
        <div className="memory-sum">
          <dt>Needed</dt>
          <dd>{bytes(needed)}</dd>
        </div>
        <div>
          <dt>Free now</dt>
          <dd>
            {bytes(disk.available_memory_bytes)} of {bytes(disk.memory_bytes)}
          </dd>
        </div>
      </dl>
      {fits === 'later' && (
        <Notice tone="warn">
          The model needs more memory than is free now. Loading it first unloads idle models, and fails if that does not
          free enough memory.
        </Notice>
      )}
    </figure>
  );
}
