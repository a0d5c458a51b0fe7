from . import web as web
