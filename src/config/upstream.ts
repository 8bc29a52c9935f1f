// Schema of `models.<id>.upstream`: an upstream model's servers and their API format. No side effects.
import { z } from 'zod';

/** API formats of upstream servers. Each is also a path relative to the server's URL. */
export const UPSTREAM_APIS = ['chat-completions', 'completions', 'responses', 'messages', 'embeddings'] as const;
export type UpstreamApi = (typeof UPSTREAM_APIS)[number];

/** One server of an upstream model. */
export interface UpstreamServer {
  /** Base URL including the API version, without a trailing slash: http://127.0.0.1:8000/v1. */
  readonly url: string;
  readonly api: UpstreamApi;
  /** The model's name on that server; null: the local name. */
  readonly model: string | null;
  /** Secret. Sent only to this server; never logged or returned to clients. */
  readonly key: string | null;
  /** Additional request headers. Secret, like the key. */
  readonly headers: Readonly<Record<string, string>>;
  readonly weight: number;
}

export interface Upstream {
  /** At least one. */
  readonly servers: readonly UpstreamServer[];
  /** The model that serves the request if all servers fail. */
  readonly fallback: string | null;
  /** Whether the model accepts images. */
  readonly images: boolean;
  /** The parameter that controls reasoning effort. */
  readonly thinking: 'reasoning_effort' | 'enable_thinking' | 'none';
  /** The message field that contains the reasoning of earlier turns. */
  readonly thinking_field: 'reasoning_content' | 'reasoning' | 'none';
  /**
   * The structured-output feature that the servers support and enforce. This process validates responses in all formats
   * that the feature does not cover.
   */
  readonly structured_outputs: 'json_schema' | 'json_object' | 'vllm' | 'llama-server' | 'monolith' | 'none';
  /** Name of the parameter that limits output tokens. */
  readonly cap_field: 'max_tokens' | 'max_completion_tokens';
}

const isAddress = (value: string): boolean => {
  if (!URL.canParse(value)) return false;
  const { protocol, username, password, search, hash } = new URL(value);
  return /^https?:$/.test(protocol) && username === '' && password === '' && search === '' && hash === '';
};

const visible = z.string().regex(/^[\x20-\x7e]+$/, 'must contain only visible ASCII characters');
const url = z
  .string()
  .max(512)
  .refine(isAddress, 'must be an http or https URL without user, password, query and fragment')
  .transform((value) => value.replace(/\/+$/, ''));

const serverFields = {
  api: z.enum(UPSTREAM_APIS).optional(),
  model: z.string().min(1).max(256).optional(),
  key: visible.max(4096).nullable().optional(),
  /** Name of the environment variable that contains the key. */
  key_variable: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'must be the name of an environment variable')
    .optional(),
  headers: z
    .record(z.string().regex(/^[A-Za-z0-9-]{1,64}$/, 'must be the name of an HTTP header'), visible.max(4096))
    .optional(),
  weight: z.number().int().min(1).max(1000).optional(),
};

type ServerFields = z.infer<z.ZodObject<typeof serverFields>>;

const MAX_SERVERS = 64;

/** Documentation of the fields, for docs/reference/settings.md. Markdown; `fallback` describes the default. */
export const UPSTREAM_HELP: Readonly<
  Record<
    keyof ServerFields | keyof Upstream | 'url',
    { readonly expects: string; readonly fallback: string; readonly help: string }
  >
> = {
  url: {
    expects: 'an http or https URL',
    fallback: '',
    help: 'Base URL of the server, including the API version, for example `http://127.0.0.1:8000/v1`. Required unless `servers` is set.',
  },
  servers: {
    expects: 'a list of 1 to 64 objects',
    fallback: '',
    help: 'A list of servers. Each has a `url` and may have its own `api`, `model`, `key`, `key_variable`, `headers` and `weight`; fields that a server omits are taken from `upstream`.',
  },
  api: {
    expects: '`chat-completions`, `completions`, `responses`, `messages` or `embeddings`',
    fallback: '`chat-completions`',
    help: 'API that the server offers. A model with `embeddings` serves requests for embeddings only, and cannot have servers with another API or a `fallback`.',
  },
  model: {
    expects: '1 to 256 characters',
    fallback: 'the name of the model',
    help: 'Name of the model on the server.',
  },
  key: {
    expects: 'visible ASCII characters, or null',
    fallback: 'null',
    help: 'API key. It is sent only to this server and never logged.',
  },
  key_variable: {
    expects: 'the name of an environment variable',
    fallback: '',
    help: 'Environment variable that contains the key.',
  },
  headers: { expects: 'an object', fallback: 'none', help: 'Additional request headers.' },
  weight: {
    expects: 'an integer from 1 to 1000',
    fallback: '1',
    help: 'Share of the requests, relative to the other servers.',
  },
  fallback: {
    expects: 'a model name, or null',
    fallback: 'null',
    help: 'Model that serves the request if all servers fail.',
  },
  images: { expects: 'true or false', fallback: 'false', help: 'Whether the model accepts images.' },
  thinking: {
    expects: '`reasoning_effort`, `enable_thinking` or `none`',
    fallback: '`reasoning_effort`',
    help: 'Request parameter that controls reasoning on the server.',
  },
  thinking_field: {
    expects: '`reasoning_content`, `reasoning` or `none`',
    fallback: '`reasoning_content`',
    help: 'Field that carries the reasoning of earlier turns.',
  },
  structured_outputs: {
    expects: '`json_schema`, `json_object`, `vllm`, `llama-server`, `monolith` or `none`',
    fallback: '`json_schema`',
    help: 'Structured-output feature that the server enforces. Other formats are validated after generation.',
  },
  cap_field: {
    expects: '`max_tokens` or `max_completion_tokens`',
    fallback: '`max_tokens`',
    help: 'Name of the output limit parameter.',
  },
};

/**
 * It is an error if the variable for the key is unset, because the server would reject every request without its key.
 */
export const upstreamSchema: z.ZodType<Upstream> = z
  .strictObject({
    ...serverFields,
    url: url.optional(),
    /** A list of servers. Fields that a server omits are taken from the object that contains the list. */
    servers: z
      .array(z.strictObject({ ...serverFields, url }))
      .min(1)
      .max(MAX_SERVERS)
      .optional(),
    fallback: z.string().min(1).max(128).nullable().optional(),
    images: z.boolean().optional(),
    thinking: z.enum(['reasoning_effort', 'enable_thinking', 'none']).optional(),
    thinking_field: z.enum(['reasoning_content', 'reasoning', 'none']).optional(),
    structured_outputs: z.enum(['json_schema', 'json_object', 'vllm', 'llama-server', 'monolith', 'none']).optional(),
    cap_field: z.enum(['max_tokens', 'max_completion_tokens']).optional(),
  })
  .superRefine((value, context) => {
    if ((value.url === undefined) === (value.servers === undefined)) {
      context.addIssue({
        code: 'custom',
        path: ['url'],
        message: 'is required, unless servers is set; set only one of the two',
      });
    }
    const apis = new Set((value.servers ?? [value]).map(({ api }) => api ?? value.api ?? 'chat-completions'));
    if (apis.has('embeddings') && apis.size > 1)
      context.addIssue({ code: 'custom', path: ['api'], message: 'cannot be embeddings for only some of the servers' });
    if (apis.has('embeddings') && value.fallback != null)
      context.addIssue({
        code: 'custom',
        path: ['fallback'],
        message: 'is not possible with api "embeddings": vectors of different models cannot be compared',
      });
    for (const { key_variable: name } of [value, ...(value.servers ?? [])] as readonly ServerFields[]) {
      if (name !== undefined && (process.env[name] ?? '') === '')
        context.addIssue({
          code: 'custom',
          path: ['key_variable'],
          message: `the environment variable ${name} is not set`,
        });
    }
  })
  .transform(
    ({
      url: single,
      servers,
      fallback,
      images,
      thinking,
      thinking_field,
      structured_outputs,
      cap_field,
      ...shared
    }): Upstream => ({
      servers: (servers ?? [{ url: single ?? '' }]).map((one) => serverOf(one.url, one, shared)),
      fallback: fallback ?? null,
      images: images ?? false,
      thinking: thinking ?? 'reasoning_effort',
      thinking_field: thinking_field ?? 'reasoning_content',
      structured_outputs: structured_outputs ?? 'json_schema',
      cap_field: cap_field ?? 'max_tokens',
    }),
  );

function serverOf(address: string, own: ServerFields, shared: ServerFields): UpstreamServer {
  return {
    url: address,
    api: own.api ?? shared.api ?? 'chat-completions',
    model: own.model ?? shared.model ?? null,
    weight: own.weight ?? shared.weight ?? 1,
    key: keyOf(own) ?? keyOf(shared) ?? null,
    headers: { ...shared.headers, ...own.headers },
  };
}

const keyOf = ({ key, key_variable: name }: ServerFields): string | null | undefined =>
  name === undefined ? key : process.env[name];

/** An upstream model that is declared only by its URL: --model NAME=http://127.0.0.1:8000/v1. */
export const upstreamOfAddress = (address: string): Upstream => upstreamSchema.parse({ url: address });
