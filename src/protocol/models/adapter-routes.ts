// POST /v1/load_lora_adapter and /v1/unload_lora_adapter in vLLM's format, and GET /lora-adapters in llama-server's.
// These routes require an operator's API key, because they affect all clients and show file paths.
import { z } from 'zod';
import { apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { nameIgnored } from '../ignored.js';
import { unreadFields } from '../unread.js';
import { validated } from '../validation.js';

/** An adapter served by this server. It is listed even while its model is unloaded. */
export interface ListedAdapter {
  /** The public name, MODEL:NAME. */
  readonly id: string;
  readonly path: string;
  readonly scale: number;
}

export interface AdapterRoutesOptions {
  /** Lists the adapters in insertion order. */
  list(): readonly ListedAdapter[];
  /** Loads an adapter. Resolves to its public name when every thread serves it. Rejects with ApiError. */
  load(
    request: { name: string; path: string; base?: string; scale?: number; signal: AbortSignal },
    ip: string,
  ): Promise<string>;
  /** Unloads an adapter. Resolves to its public name when all threads refuse new requests. Rejects with ApiError. */
  unload(name: string, ip: string): Promise<string>;
  /** Rejects with ApiError 403 unless the request has an operator's API key without restrictions. */
  check(exchange: Exchange): Promise<void>;
}

/** Maximum absolute value of an adapter's scale. */
const MAX_SCALE = 100;

export const loadAdapterSchema = z.object({
  lora_name: z.string().min(1).max(192),
  lora_path: z.string().min(1).max(4096),
  /** The adapter's base model. Not needed if only one local model is served. */
  base_model_name: z.string().min(1).max(128).nullish(),
  /** Multiplies the adapter's output. Default: 1. */
  scale: z.number().min(-MAX_SCALE).max(MAX_SCALE).nullish(),
  /** In vLLM, true replaces a loaded adapter with this name. Not supported by this server. */
  load_inplace: z.boolean().nullish(),
});

export const unloadAdapterSchema = z.object({
  lora_name: z.string().min(1).max(192),
});

export function adapterRoutes({ list, load, unload, check }: AdapterRoutesOptions): Route[] {
  return [
    {
      method: 'POST',
      path: '/v1/load_lora_adapter',
      scope: null,
      handler: async (exchange) => {
        const { body, remoteAddress } = exchange;
        await check(exchange);
        const fields = validated(loadAdapterSchema, body);
        if (fields.load_inplace === true)
          throw apiError(
            'unsupported_value',
            'load_inplace: a loaded adapter cannot be replaced. Unload it first.',
            'load_inplace',
          );
        nameIgnored({ parameters: unreadFields(loadAdapterSchema, body) }, exchange);
        const { lora_name: name, lora_path: path, base_model_name: base, scale } = fields;
        const abort = new AbortController();
        exchange.onAborted(() => abort.abort());
        const request = { name, path, ...(base == null ? {} : { base }), ...(scale == null ? {} : { scale }) };
        let id: string;
        try {
          id = await load({ ...request, signal: abort.signal }, remoteAddress);
        } catch (error) {
          if (exchange.aborted) return;
          throw error;
        }
        exchange.annotate({ adapter: id });
        exchange.text(200, TEXT, `Success: LoRA adapter '${name}' added successfully.`);
      },
    },
    {
      method: 'POST',
      path: '/v1/unload_lora_adapter',
      scope: null,
      handler: async (exchange) => {
        const { body, remoteAddress } = exchange;
        await check(exchange);
        const { lora_name: name } = validated(unloadAdapterSchema, body);
        nameIgnored({ parameters: unreadFields(unloadAdapterSchema, body) }, exchange);
        const id = await unload(name, remoteAddress);
        exchange.annotate({ adapter: id });
        exchange.text(200, TEXT, `Success: LoRA adapter '${name}' removed successfully.`);
      },
    },
    {
      method: 'GET',
      path: '/lora-adapters',
      scope: null,
      handler: async (exchange) => {
        await check(exchange);
        // `id`: index in the list, as in llama-server. `name`: the value for the `model` field of a request.
        exchange.json(
          200,
          list().map(({ id, path, scale }, index) => ({ id: index, name: id, path, scale })),
        );
      },
    },
  ];
}

const TEXT = 'text/plain; charset=utf-8';
