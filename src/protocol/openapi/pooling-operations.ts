// The operations of embeddings, reranking and scores in the OpenAPI document. No side effects.

/** Entries of `operations` in document.ts. */
export const poolingOperations = [
  {
    method: 'post',
    path: '/v1/embeddings',
    id: 'createEmbeddings',
    summary: 'Convert texts to vectors (OpenAI format).',
    request: 'EmbeddingsRequest',
    answer: 'Embeddings',
  },
  {
    method: 'post',
    path: '/v1/rerank',
    id: 'rerank',
    summary: 'Rank documents by their relevance to a query (format of Cohere and Jina).',
    request: 'RerankRequest',
    answer: 'Ranking',
  },
  {
    method: 'post',
    path: '/v2/rerank',
    id: 'rerankV2',
    summary: 'The same as `/v1/rerank`, at the path of version 2 of the Cohere API.',
    request: 'RerankRequest',
    answer: 'Ranking',
  },
  {
    method: 'post',
    path: '/rerank',
    id: 'rerankWithoutVersion',
    summary: 'The same as `/v1/rerank`.',
    request: 'RerankRequest',
    answer: 'Ranking',
  },
  {
    method: 'post',
    path: '/v1/score',
    id: 'score',
    summary: "Get the relevance of pairs of texts (vLLM's format).",
    request: 'ScoreRequest',
    answer: 'Scores',
  },
  {
    method: 'post',
    path: '/score',
    id: 'scoreWithoutVersion',
    summary: 'The same as `/v1/score`.',
    request: 'ScoreRequest',
    answer: 'Scores',
  },
] as const;
