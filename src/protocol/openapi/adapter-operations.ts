// The operations on LoRA adapters in the OpenAPI document. No side effects.

/** Entries of `operations` in document.ts. */
export const adapterOperations = [
  {
    method: 'post',
    path: '/v1/load_lora_adapter',
    id: 'loadLoraAdapter',
    summary: "Load a LoRA adapter (vLLM's format). Requires operator access.",
    request: 'LoadAdapterRequest',
    answer: 'AdapterMessage',
    isText: true,
  },
  {
    method: 'post',
    path: '/v1/unload_lora_adapter',
    id: 'unloadLoraAdapter',
    summary: "Unload a LoRA adapter (vLLM's format). Requires operator access.",
    request: 'UnloadAdapterRequest',
    answer: 'AdapterMessage',
    isText: true,
  },
  {
    method: 'get',
    path: '/lora-adapters',
    id: 'listLoraAdapters',
    summary: 'List the LoRA adapters, with the field names of llama-server. Requires operator access.',
    answer: 'AdapterList',
  },
] as const;
