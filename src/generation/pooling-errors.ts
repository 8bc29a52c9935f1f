// Errors for requests to a model that does not produce the requested output type: text, vectors or scores. Pure.
import { apiError, type ApiError } from '../shared/errors.js';
import type { PoolingTask } from './pooling.js';
import type { Provider } from './provider.js';

const ENDPOINTS: Readonly<Record<PoolingTask, string>> = {
  embedding: 'it is an embedding model. Use POST /v1/embeddings',
  ranking: 'it is a reranker. Use POST /v1/rerank or /v1/score',
};

export const notGenerating = (model: string, task: PoolingTask): ApiError =>
  apiError('model_not_generative', `${model} does not generate text: ${ENDPOINTS[task]}.`, 'model');

/** Returns the provider's pooler. Throws ApiError 422 if the model does not support this task. */
export function poolerFor(provider: Provider, model: string, task: PoolingTask): NonNullable<Provider['pooler']> {
  const { pooler } = provider;
  if (pooler?.task === task) return pooler;
  throw task === 'embedding'
    ? apiError('model_not_embedding', `${model} does not produce embeddings.`, 'model')
    : apiError('model_not_ranking', `${model} is not a reranker.`, 'model');
}
