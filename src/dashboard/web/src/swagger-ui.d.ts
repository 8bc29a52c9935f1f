declare module 'swagger-ui-dist/swagger-ui-es-bundle.js' {
  const SwaggerUI: (options: Readonly<Record<string, unknown>>) => unknown;
  export default SwaggerUI;
}
