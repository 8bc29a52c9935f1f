// The complete table of error codes that a client can receive, each declared once. docs/reference/errors.md is
// generated from it (npm run docs). Using a code that is missing from the table is a compile error.

/** HTTP status → `error.type`. Public endpoints return no other error status. */
export const ERROR_TYPES = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  422: 'unprocessable_entity',
  429: 'rate_limit_error',
  500: 'internal_error',
  503: 'service_unavailable',
} as const;

export type ErrorStatus = keyof typeof ERROR_TYPES;
export type ErrorType = (typeof ERROR_TYPES)[ErrorStatus];

/** One error code. All texts are Markdown. */
interface ErrorDeclaration {
  readonly status: ErrorStatus;
  readonly meaning: string;
  readonly cause: string;
  /** How the client or the operator can resolve the error. */
  readonly action: string;
}

/** Error codes by `error.code`. Adding a code requires a minor release; codes are never renamed. */
export const ERRORS = {
  invalid_json: {
    status: 400,
    meaning: 'The request body is not valid JSON.',
    cause:
      'The body contains a syntax error, invalid UTF-8, more than 512 nesting levels, more than 500,000 members or more than 1,000,000 values.',
    action: 'Correct the JSON. Split very large requests.',
  },
  invalid_body: {
    status: 400,
    meaning: 'The request body is empty or is not a JSON object.',
    cause: 'No body was sent, or the body is an array, a string or null.',
    action: 'Send one JSON object.',
  },
  unsupported_media_type: {
    status: 400,
    meaning: 'The server cannot read this body format.',
    cause: '`Content-Type` is not `application/json`, or `Content-Encoding` is neither `gzip` nor `identity`.',
    action: 'Send JSON, either uncompressed or compressed with gzip.',
  },
  missing_required_parameter: {
    status: 400,
    meaning: 'A required field is missing.',
    cause: '`param` names the field.',
    action: 'Add the field.',
  },
  invalid_type: {
    status: 400,
    meaning: 'A field has the wrong JSON type.',
    cause: '`param` names the field; the message names the expected type.',
    action: "Correct the value's type.",
  },
  unknown_variant: {
    status: 400,
    meaning: 'A discriminating field such as `type` or `role` has an unknown value.',
    cause: '`param` names the field; the message lists the accepted values.',
    action: 'Use one of the accepted values.',
  },
  invalid_header: {
    status: 400,
    meaning: 'A request header has an invalid value.',
    cause:
      '`param` names the header. Two different `Content-Length` headers and a `Transfer-Encoding` other than `chunked` are also rejected.',
    action: 'Correct the header. If a proxy adds it, correct the proxy.',
  },
  invalid_query_parameter: {
    status: 400,
    meaning: 'A query parameter is invalid.',
    cause: '`param` names the parameter.',
    action: 'Correct the parameter.',
  },
  invalid_thinking_signature: {
    status: 400,
    meaning: 'A thinking block does not have a valid signature.',
    cause:
      'The block was changed, was created by another server, or its signing key was removed from `secrets.signing_keys`. This is an error only if the setting `foreign_thinking` is `reject`, or if the request sets `thinking.block_binding.prefix_mismatch_behavior` to `error`.',
    action:
      'Send thinking blocks back unchanged, or leave them out. With `foreign_thinking` = `drop` (the default), the server leaves them out.',
  },
  invalid_encrypted_content: {
    status: 400,
    meaning: 'Encrypted reasoning or a compaction summary cannot be decrypted.',
    cause:
      'The content was changed, was created by another server, belongs to another organization, or its key was removed from `secrets.signing_keys`. For reasoning, this is an error only if the setting `foreign_thinking` is `reject`.',
    action:
      'Send the item back unchanged, or leave it out. In place of a compaction summary, send the messages that it replaced.',
  },
  request_timeout: {
    status: 400,
    meaning: 'The request body did not arrive in time.',
    cause: 'The body took longer than 300 seconds to arrive, or no data of a chunked body arrived for 20 seconds.',
    action: 'Send the request again. Check the network and any proxy.',
  },
  headers_too_large: {
    status: 400,
    meaning: 'The request headers are too large.',
    cause: 'The headers exceed `http.max_header_bytes` in total, or there are more than 98 of them.',
    action: 'Send fewer or shorter headers, or raise the setting.',
  },
  context_length_exceeded: {
    // Must be 400: with a 422, coding agents do not recognize that the prompt is too long, and retry forever.
    status: 400,
    meaning: "The prompt does not fit the model's context window.",
    cause: 'Prompt and requested output together exceed the context window.',
    action: 'Shorten or compact the conversation, lower the output limit, or use a model with a larger window.',
  },
  malformed_http: {
    status: 400,
    meaning: 'The bytes received are not valid HTTP/1.1.',
    cause: 'The client or a proxy is faulty, TLS was sent to the plain-text port, or a chunked body has trailers.',
    action: 'Use an HTTP/1.1 client, and check the proxy.',
  },
  invalid_token: {
    status: 400,
    meaning: 'A link, invitation or sign-in ticket is no longer valid.',
    cause:
      'The link or ticket has expired, has already been used or was revoked, or its account or organization was deleted. Dashboard only.',
    action: 'Request a new link or invitation, or sign in again.',
  },
  websocket_connection_limit_reached: {
    status: 400,
    meaning: 'The WebSocket connection has reached its maximum age and accepts no further requests.',
    cause: 'The connection is older than `ws.max_age_s`.',
    action: 'Open a new connection and send the request there.',
  },

  storage_quota_exceeded: {
    status: 400,
    meaning: "The organization's files use all of its storage.",
    cause: "The organization's files, including unfinished uploads, would exceed `files.organization_bytes`.",
    action: 'Delete files that are no longer needed, or ask the operator to raise the limit.',
  },

  missing_api_key: {
    status: 401,
    meaning: 'The request has no API key.',
    cause: 'Neither `Authorization: Bearer` nor `x-api-key` was sent.',
    action: 'Send an API key.',
  },
  invalid_api_key: {
    status: 401,
    meaning: 'The API key is unknown.',
    cause: 'The key is mistyped, was deleted or belongs to another server, or the operator token is wrong.',
    action: 'Check the key, or create a new one.',
  },
  api_key_expired: {
    status: 401,
    meaning: 'The API key has expired.',
    cause:
      "The key's `expires_at` has passed, or the overlap period after its rotation is over. Running requests that use the key are cancelled too.",
    action: 'Create a new key or, after a rotation, use the new key.',
  },
  api_key_revoked: {
    status: 401,
    meaning: 'The API key was revoked.',
    cause:
      'A user revoked the key, or its organization was deleted. Running requests that use the key are cancelled too.',
    action: 'Create a new key.',
  },
  not_signed_in: {
    status: 401,
    meaning: 'There is no valid dashboard session.',
    cause:
      'There is no session cookie, the session has expired or was revoked, or the account was deleted. Dashboard only.',
    action: 'Sign in again.',
  },
  invalid_credentials: {
    status: 401,
    meaning: 'The email address or the password is wrong.',
    cause: 'The address or password was mistyped, or the account does not exist. Dashboard only.',
    action: 'Check the address and the password, or reset the password.',
  },
  invalid_code: {
    status: 401,
    meaning: 'The two-factor authentication code is wrong.',
    cause: "The code was mistyped or has already been used, or the device's clock is wrong. Dashboard only.",
    action: 'Enter the current code, or a recovery code.',
  },

  model_not_allowed: {
    status: 403,
    meaning: 'The API key may not use this model.',
    cause: 'The model is not in the `models` list of the key.',
    action: 'Use an allowed model, or allow the model for the key.',
  },
  endpoint_not_allowed: {
    status: 403,
    meaning: 'The API key does not have the required scope.',
    cause: 'The message names the missing scope. `/metrics` requires an operator key or `metrics.token`.',
    action: 'Use another key, or add the scope to the key.',
  },
  address_not_allowed: {
    status: 403,
    meaning:
      'The API key may not be used from this IP address, or the organization may not be opened on the dashboard from it.',
    cause:
      "The client's address is not in the key's `allowed_addresses` or in the organization's `dashboard_addresses`. Behind a proxy, see `http.trust_proxy`.",
    action:
      "Use an allowed address, or ask an admin of the organization to add the address. An operator can clear an organization's list.",
  },
  organization_suspended: {
    status: 403,
    meaning: 'The organization is suspended.',
    cause: 'An operator suspended the organization. Running requests are cancelled too.',
    action: "Contact the server's operator.",
  },
  service_account_disabled: {
    status: 403,
    meaning: 'The service account that owns the API key is disabled.',
    cause: 'An admin of the organization disabled it. Running requests are cancelled too.',
    action: 'Enable the service account on the Members page, or use another key.',
  },
  role_not_allowed: {
    status: 403,
    meaning: "The user's role does not permit this action.",
    cause: 'The action requires a higher role in the organization, or operator rights. Dashboard only.',
    action: 'Ask an admin or owner of the organization.',
  },
  invalid_csrf_token: {
    status: 403,
    meaning: 'The `X-CSRF-Token` or `Origin` header is missing or wrong.',
    cause: 'The request came from another site or from a stale page, or a proxy changed `Host`. Dashboard only.',
    action: 'Reload the page. Behind a proxy, set `dashboard.url`.',
  },
  signup_closed: {
    status: 403,
    meaning: 'Sign-up is not open.',
    cause: '`accounts.signup` requires an invitation, or the first user did not use the setup link. Dashboard only.',
    action: 'Ask for an invitation, or use the link printed at startup.',
  },
  user_locked: {
    status: 403,
    meaning: 'The user account is locked.',
    cause: 'An operator locked the account. Dashboard only.',
    action: "Contact the server's operator.",
  },
  second_factor_required: {
    status: 403,
    meaning: 'Operators of this server must use two-factor authentication.',
    cause:
      '`accounts.operator_second_factor` is `required` but two-factor authentication is off, or an operator tried to turn it off. Dashboard only.',
    action: 'Enable two-factor authentication in your profile.',
  },
  recent_sign_in_required: {
    status: 403,
    meaning: 'The action requires a sign-in within the last ten minutes.',
    cause:
      'The account has no password that could confirm the action, so a recent sign-in is required instead. Dashboard only.',
    action: 'Sign out, sign in again, and repeat the action.',
  },

  unknown_endpoint: {
    status: 404,
    meaning: 'The path does not exist.',
    cause: 'The base URL is wrong, or the path was mistyped.',
    action: 'Check the URL. OpenAI clients need a base URL that ends in `/v1`; Anthropic clients need one without it.',
  },
  method_not_allowed: {
    status: 404,
    meaning: 'The path does not support this HTTP method.',
    cause: 'The message and the `Allow` header list the supported methods.',
    action: 'Use a supported method.',
  },
  model_not_found: {
    status: 404,
    meaning: 'No model has this name.',
    cause: 'The name was mistyped, or the model was retired or removed.',
    action:
      'Use one of the models in the message; `GET /v1/models` returns all of them. For a retired model, the message names the successor.',
  },
  response_not_found: {
    status: 404,
    meaning: 'No stored response has this ID.',
    cause:
      'The response was created with `store: false`, was deleted, is older than `responses.retention_days`, or belongs to another organization.',
    action: 'Check the ID and the API key.',
  },
  previous_response_not_found: {
    status: 404,
    meaning: 'The response in `previous_response_id` does not exist.',
    cause: 'The same causes as for `response_not_found`.',
    action: 'Send the complete conversation in `input`.',
  },
  item_not_found: {
    status: 404,
    meaning: 'A referenced item does not exist.',
    cause: 'An `item_reference` or an `after` parameter names an unknown item.',
    action: 'Check the ID, or send the item itself.',
  },
  conversation_not_found: {
    status: 404,
    meaning: 'No conversation has this ID.',
    cause:
      'The conversation was deleted, expired after `responses.retention_days` days without new items, or belongs to another organization.',
    action: 'Check the ID and the API key, or create a new conversation.',
  },
  chat_completion_not_found: {
    status: 404,
    meaning: 'No stored chat completion has this ID.',
    cause:
      'The completion was created without `store: true`, was deleted, is older than `responses.retention_days`, or belongs to another organization.',
    action: 'Check the ID and the API key.',
  },
  file_not_found: {
    status: 404,
    meaning: 'No file has this ID.',
    cause: 'The file was deleted, has expired or belongs to another organization.',
    action: 'Check the ID and the API key, or upload the file again.',
  },
  upload_not_found: {
    status: 404,
    meaning: 'No upload has this ID.',
    cause: 'The upload expired more than a day ago, or belongs to another organization.',
    action: 'Check the ID and the API key, or create a new upload.',
  },
  batch_not_found: {
    status: 404,
    meaning: 'No batch has this ID.',
    cause: 'The batch was deleted, ended more than `batches.retention_days` ago, or belongs to another organization.',
    action: 'Check the ID and the API key.',
  },
  resource_not_found: {
    status: 404,
    meaning: 'The object does not exist.',
    cause:
      'The ID in a request to the dashboard or operator API is unknown, or the object belongs to another organization.',
    action: 'Check the ID.',
  },

  request_too_large: {
    status: 413,
    meaning: 'The request body is too large.',
    cause: 'The body exceeds `http.max_body_bytes` before or after decompression.',
    action: 'Send a smaller request, or ask the operator to raise the limit.',
  },
  file_too_large: {
    status: 413,
    meaning: 'The file is too large.',
    cause:
      'The file exceeds `files.max_bytes`, a part exceeds the declared size of its upload, the files of a generation request exceed the limit on their total size (64 MiB, or less if `http.max_reading_bytes` is small), or a PDF file exceeds one of its limits.',
    action:
      'Send smaller files, create the upload with the correct size, or ask the operator to raise `files.max_bytes`.',
  },

  value_out_of_range: {
    status: 422,
    meaning: 'A number is outside its range.',
    cause: '`param` names the field; the message states the range.',
    action: 'Use a value within the range.',
  },
  invalid_value: {
    status: 422,
    meaning: 'A value is not acceptable.',
    cause: '`param` names the field; the message states what is expected.',
    action: 'Correct the value.',
  },
  string_too_long: {
    status: 422,
    meaning: 'A string is too long.',
    cause: '`param` names the field; the message states the maximum.',
    action: 'Shorten the string.',
  },
  array_too_long: {
    status: 422,
    meaning: 'An array has too many entries.',
    cause: '`param` names the field; the message states the maximum.',
    action: 'Send fewer entries.',
  },
  too_many_entries: {
    status: 422,
    meaning: 'An object or a collection has too many entries.',
    cause:
      'There are too many `logit_bias` or `metadata` entries, or the maximum number of API keys, organizations or saved items is reached.',
    action: 'Send fewer entries, or delete objects that are no longer needed.',
  },
  conflicting_parameters: {
    status: 422,
    meaning: 'Two parameters contradict each other.',
    cause: 'For example, `tool_choice` requires a tool but `tools` is empty, or `min_tokens` exceeds the output limit.',
    action: 'Change one of the parameters that the message names.',
  },
  unsupported_parameter: {
    status: 422,
    meaning: 'The server or the model does not support this parameter.',
    cause: '`param` names the parameter. An example is `stop` for an upstream API without stop strings.',
    action: 'Leave the parameter out.',
  },
  unsupported_value: {
    status: 422,
    meaning: 'The server or the model does not support this value.',
    cause:
      '`param` names the field. Examples are `n` above 1 with some upstream APIs, and a response that would be larger than half of `http.max_answering_bytes`.',
    action: 'Use a supported value.',
  },
  unsupported_feature: {
    status: 422,
    meaning: 'The model or this server does not offer the feature.',
    cause: 'Examples are token IDs or grammars for an upstream model, and email if no SMTP server is configured.',
    action: 'Do not use the feature, or use another model.',
  },
  unsupported_content: {
    status: 422,
    meaning: 'The message contains a content type that is not supported.',
    cause: 'Examples are audio, files, and images in messages of a role that cannot contain them.',
    action: 'Remove the content part or convert it to a supported type.',
  },
  model_not_vision: {
    status: 422,
    meaning: 'The model does not accept images.',
    cause:
      'The model has no vision encoder. The setting `models.<id>.image_input` = `note` replaces each image with a text note.',
    action: 'Use a vision model, or remove the images.',
  },
  model_not_embedding: {
    status: 422,
    meaning: 'The model does not produce embeddings.',
    cause: 'The model generates text or ranks documents.',
    action: 'Use an embedding model. `GET /v1/models` shows the `task` of each model.',
  },
  model_not_ranking: {
    status: 422,
    meaning: 'The model does not rank documents.',
    cause: 'The model generates text or produces embeddings.',
    action: 'Use a reranker. `GET /v1/models` shows the `task` of each model.',
  },
  model_not_generative: {
    status: 422,
    meaning: 'The model does not generate text.',
    cause: 'The model produces embeddings or ranks documents.',
    action: 'Use a model whose `task` is `generation` in `GET /v1/models`.',
  },
  duplicate_tool_name: {
    status: 422,
    meaning: 'Two tools have the same name.',
    cause: '`param` names the second tool.',
    action: 'Rename one of the tools.',
  },
  invalid_tool_name: {
    status: 422,
    meaning: 'A tool name is invalid.',
    cause: 'A name must consist of 1 to 128 letters, digits, `_` or `-`.',
    action: 'Rename the tool.',
  },
  mcp_server_not_allowed: {
    status: 422,
    meaning: 'The MCP server may not be used.',
    cause:
      'Its host is not in the setting `mcp.allowed_hosts`, its URL does not use https, or its address is not public.',
    action: 'Use an allowed server, or ask the operator to add the host.',
  },
  tool_not_found: {
    status: 422,
    meaning: '`tool_choice` names an unknown tool.',
    cause: 'The tool is not in `tools`, or it was ignored because its type is not supported.',
    action: 'Add the tool, or change `tool_choice`.',
  },
  tool_call_not_found: {
    status: 422,
    meaning: 'A tool result does not match a preceding tool call.',
    cause: 'The call ID is wrong, the call already has a result, or the conversation does not contain the call.',
    action: 'Send each result once, after its call, with the same ID.',
  },
  missing_tool_output: {
    status: 422,
    meaning: 'A tool call has no result.',
    cause: 'The conversation continues after a tool call whose result is missing.',
    action: 'Send a result for each tool call.',
  },
  invalid_json_schema: {
    status: 422,
    meaning: 'A JSON Schema is invalid.',
    cause:
      'The schema is malformed, cannot be satisfied by any value, or is larger than 256 KiB (2 MiB for all tools together).',
    action: 'Correct the schema. The message gives the position of the error.',
  },
  unsupported_json_schema: {
    status: 422,
    meaning: 'A strict JSON Schema uses a keyword that cannot be enforced.',
    cause:
      'The schema uses a keyword that is not in the table under [structured output](structured-output.md#keywords), or it is too expensive to compile.',
    action: 'Remove the keyword, or set `strict` to false.',
  },
  invalid_image: {
    status: 422,
    meaning: 'An image is malformed.',
    cause: 'The base64 is invalid, the file is damaged or truncated, or it is a JPEG with more than 100 scans.',
    action: 'Send a valid image file.',
  },
  unsupported_image_format: {
    status: 422,
    meaning: 'The image format is not supported.',
    cause: 'Only PNG, JPEG, WebP and GIF are supported.',
    action: 'Convert the image.',
  },
  image_too_large: {
    status: 422,
    meaning: 'An image is too large.',
    cause:
      'The image exceeds `images.max_bytes`, `images.max_pixels` or `images.max_tokens`, or all images together exceed `images.max_request_tokens`.',
    action: 'Scale the image down, or send fewer images.',
  },
  too_many_images: {
    status: 422,
    meaning: 'The request has too many images.',
    cause:
      'The number of images exceeds `images.max_per_request`. Images from earlier turns of the conversation count too.',
    action: 'Send fewer images.',
  },
  image_fetch_failed: {
    status: 422,
    meaning: 'An image could not be downloaded.',
    cause:
      'The host is not in `images.allowed_hosts`, its address is not public, or it did not send a valid response in time.',
    action: 'Send the image as a `data:` URL, or ask the operator to allow the host.',
  },
  response_not_usable: {
    status: 422,
    meaning: 'A stored response cannot be continued.',
    cause: 'The response failed, was cancelled or is still running, or the conversation is too long.',
    action: 'Start a new conversation that contains the messages you need.',
  },
  conversation_too_large: {
    status: 422,
    meaning: 'A conversation has too many items or too much text.',
    cause: "The new items would exceed a conversation's limits.",
    action: 'Start a new conversation with the items you need.',
  },
  too_many_conversations: {
    status: 422,
    meaning: 'The organization has too many conversations.',
    cause: 'The number of conversations has reached `responses.max_conversations`.',
    action: 'Delete conversations that you no longer need, or wait until they expire.',
  },
  response_not_cancellable: {
    status: 422,
    meaning: 'The response cannot be cancelled.',
    cause: 'The response is not a background response.',
    action: 'Close the connection to cancel a foreground request.',
  },
  batch_not_cancellable: {
    status: 422,
    meaning: 'The batch cannot be cancelled.',
    cause: 'It has already finished.',
    action: 'Retrieve the batch to see its status.',
  },
  batch_not_ended: {
    status: 422,
    meaning: 'The batch has not finished yet.',
    cause: 'A batch has results, and can be deleted, only after it has finished.',
    action: 'Wait until the batch has finished, or cancel it.',
  },
  steering_not_supported: {
    status: 422,
    meaning: 'A running response cannot be steered.',
    cause: 'The client sent `response.steer` on a WebSocket.',
    action: 'Wait for the response, then send a new request.',
  },
  email_taken: {
    status: 422,
    meaning: 'An account with this email address already exists.',
    cause: 'A user signed up with, or tried to change to, an address that is already in use. Dashboard only.',
    action: 'Sign in instead, or use another address.',
  },
  last_owner: {
    status: 422,
    meaning: 'An organization would be left without an owner.',
    cause: 'The last owner tried to delete the account. Dashboard only.',
    action: 'Make another member an owner, or delete the organization.',
  },

  rpm_limit_exceeded: {
    status: 429,
    meaning: 'The limit on requests per minute was reached.',
    cause:
      "Requests reached `limits.rpm`, `limits.read_rpm` or the API key's own limit, or large requests reached `limits.event_loop_ms`.",
    action: 'Wait for the time in `Retry-After`, then retry. Ask the operator for a higher limit.',
  },
  tpm_limit_exceeded: {
    status: 429,
    meaning: 'The limit on tokens per minute was reached.',
    cause:
      "Requests reached `limits.tpm` or the API key's own limit. Each request reserves its prompt tokens and its output limit.",
    action: 'Wait for the time in `Retry-After`, then retry. A lower `max_tokens` reserves fewer tokens.',
  },
  concurrency_limit_exceeded: {
    status: 429,
    meaning: 'Too many requests are running.',
    cause: "`limits.concurrency`, the API key's own limit, or `ws.max_connections` was reached.",
    action: 'Wait until running requests have finished, then retry.',
  },
  request_exceeds_tpm_limit: {
    status: 429,
    meaning: 'The prompt alone exceeds the limit on tokens per minute.',
    cause: 'The prompt is longer than `limits.tpm`. The response has `x-should-retry: false`.',
    action: 'Shorten the prompt, or ask the operator for a higher limit. Retrying will not help.',
  },
  insufficient_quota: {
    status: 429,
    meaning: 'The monthly budget or token quota is used up.',
    cause:
      "The budget of the API key, of the key's creator or of the organization is spent, or the organization has reached its `monthly_token_cap`. The response has `x-should-retry: false`.",
    action:
      'Wait for the next month (UTC), or ask an admin of the organization to raise the budget. Operators can raise the token cap.',
  },
  too_many_batches: {
    status: 429,
    meaning: 'The organization has too many unfinished batches.',
    cause: 'The organization already has `batches.per_organization` unfinished batches.',
    action: 'Wait until one of them finishes, or cancel one.',
  },
  too_many_attempts: {
    status: 429,
    meaning: 'There were too many failed attempts or sensitive actions.',
    cause:
      'One address or user sent too many unknown API keys, wrong passwords, wrong codes or changes. See [throttles](security.md#throttles).',
    action: 'Wait for the time in `Retry-After`, then retry with valid credentials.',
  },

  internal_error: {
    status: 500,
    meaning: 'The server failed unexpectedly.',
    cause: 'The server has a bug. The log contains the details under the request ID.',
    action: 'Retry. If the error happens again, report the request ID to the operator.',
  },
  model_error: {
    status: 500,
    meaning: 'The model or its upstream server failed during the request.',
    cause:
      'The engine failed, the upstream connection broke, the upstream response was invalid, or the output did not match the requested format.',
    action: 'Retry. For upstream models, check the upstream server and its log.',
  },

  capacity_exhausted: {
    status: 503,
    meaning: 'The server is at capacity.',
    cause:
      'The queue is full, the request waited too long in the queue, a memory limit for bodies, responses or images was reached, the upstream server is busy, or Redis is unreachable and `redis.when_unavailable` is `refuse`.',
    action: 'Wait for the time in `Retry-After`, then retry. Operators: see [scaling](../guides/scaling.md).',
  },
  model_loading: {
    status: 503,
    meaning: 'The model is loading.',
    cause: 'The request waited longer than `engine.load_wait_ms`, or too many requests are waiting for the model.',
    action: 'Wait for the time in `Retry-After`, then retry.',
  },
  model_unavailable: {
    status: 503,
    meaning: 'The model cannot serve requests.',
    cause: 'The model failed to load or was drained by an operator, or its upstream servers do not respond.',
    action: 'Operators: check `/readyz` and the log. Clients: retry later or use another model.',
  },
  hub_unavailable: {
    status: 503,
    meaning: 'The model hub did not return a usable response.',
    cause: 'The hub is unreachable or refused the request, or `hub.offline` is set. Dashboard and admin API only.',
    action: 'Check `hub.endpoint`, `hub.token` and the network, then retry.',
  },
  maintenance: {
    status: 503,
    meaning: 'The server cannot store data.',
    cause: 'The disk is full, or the database is unreachable.',
    action: 'Retry later. Operators: check disk space and the database.',
  },
  shutting_down: {
    status: 503,
    meaning: 'The server is shutting down.',
    cause: 'The process received SIGTERM, or the model is being unloaded.',
    action: 'Retry; a load balancer will choose another server.',
  },
} as const satisfies Record<string, ErrorDeclaration>;

export type ErrorCode = keyof typeof ERRORS;
