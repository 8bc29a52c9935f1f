// GET /organizations/:org/playground/image: reports how a model would process an image of a given size, with its token
// count and tiles. Generates nothing and does not count as usage.

import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { DashboardImagePlan } from '../../shared/wire/playground.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { ServedModels } from '../../generation/served-models.js';
import type { Guard } from './guard.js';

const MAX_NAME = 128;
const MAX_SIDE = 1e6;

export interface ImagePlanDeps {
  guard: Guard;
  models: Pick<ServedModels, 'find'>;
  pool: Pick<ModelPool, 'get'>;
}

export function imagePlanRoutes({ guard, models, pool }: ImagePlanDeps): Route[] {
  return [
    guard.member('developer', {
      method: 'GET',
      path: '/organizations/:org/playground/image',
      handler: ({ exchange }) => {
        const { query } = exchange;
        const asked = query.get('model') ?? '';
        if (asked === '' || asked.length > MAX_NAME)
          throw apiError('invalid_query_parameter', 'model must be a model name.', 'model');
        const width = side(query, 'width'),
          height = side(query, 'height');
        const model = models.find(asked);
        model.ready(); // throws an error that gives the reason if the model is not ready
        const status = pool.get(model.name)?.status;
        if (status?.state !== 'ready' || status.engine.vision === null)
          throw apiError('model_not_vision', `${asked} accepts text only, not images.`, 'model');
        exchange.json(200, planned(width, height, status.engine));
      },
    }),
  ];
}

function side(query: URLSearchParams, name: 'width' | 'height'): number {
  const text = query.get(name) ?? '';
  const value = /^\d{1,7}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > MAX_SIDE)
    throw apiError('invalid_query_parameter', `${name} must be a whole number of pixels.`, name);
  return value;
}

function planned(
  width: number,
  height: number,
  engine: { planImage(width: number, height: number, low: boolean): Omit<DashboardImagePlan, 'width' | 'height'> },
): DashboardImagePlan {
  try {
    const { tokens, columns, rows, pieces } = engine.planImage(width, height, false);
    return {
      width,
      height,
      tokens,
      columns,
      rows,
      pieces: pieces.map(({ part, width: w, height: h }) => ({ part, width: w, height: h })),
    };
  } catch (error) {
    throw apiError('invalid_image', `${error instanceof Error ? error.message : String(error)}.`);
  }
}
