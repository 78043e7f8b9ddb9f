# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A small shop on Django, in one file: what scripts/pictures profiles. gunicorn runs `shop:application`."""
import os
import random
import sqlite3

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.template import Context, Engine
from django.urls import path

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY=os.urandom(32).hex(), USE_TZ=False)

TAGS = ["red", "blue", "wool", "linen", "small", "large", "winter", "summer", "new", "sale"]

shelf = sqlite3.connect(":memory:", check_same_thread=False)
shelf.execute("CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, price REAL, tags TEXT)")
chance = random.Random(1)
shelf.executemany("INSERT INTO product VALUES (?, ?, ?, ?)",
                  [(i, "Product %d" % i, chance.randrange(100, 9900) / 100, " ".join(chance.sample(TAGS, 4)))
                   for i in range(3000)])

PAGE = Engine().from_string("""<html><body><ul>
{% for p in products %}<li class="{% cycle 'odd' 'even' %}">{{ p.name|upper }}: {{ p.price|floatformat:2 }}</li>
{% endfor %}</ul></body></html>""")


def catalogue(request):
    rows = shelf.execute("SELECT name, price FROM product WHERE name LIKE ? ORDER BY price LIMIT 120", ("%7%",))
    products = [{"name": name, "price": price} for name, price in rows]
    return HttpResponse(PAGE.render(Context({"products": products})))


def similarity(a, b):
    both = 0
    for tag in a:
        if tag in b:
            both += 1
    return both / (len(a) + len(b) - both)


def recommend(request):
    wanted = set(request.GET.get("tags", "red wool").split())
    scores = []
    for number, tags in shelf.execute("SELECT id, tags FROM product"):
        score = similarity(wanted, set(tags.split()))
        if score > 0.2:
            scores.append((score, number))
    return JsonResponse({"best": sorted(scores, reverse=True)[:10]})


def signup(request):
    token = make_password(request.GET.get("password", "secret"))
    return JsonResponse({"token": token})


urlpatterns = [path("catalogue", catalogue), path("recommend", recommend), path("signup", signup)]
application = get_wsgi_application()
