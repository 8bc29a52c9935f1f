// The API reference at /docs: Swagger UI with this server's /openapi.json. Its "Try it out" button sends requests with
// the API key that the visitor enters, which is kept only until the page is closed.
import SwaggerUI from 'swagger-ui-dist/swagger-ui-es-bundle.js';
import 'swagger-ui-dist/swagger-ui.css';

SwaggerUI({
  url: '/openapi.json',
  domNode: document.getElementById('reference'),
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: -1, // hides the list of schemas below the operations, which has hundreds of entries
  persistAuthorization: false,
  validatorUrl: null,
});
